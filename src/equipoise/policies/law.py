"""A law on sets of servers, as text and as a table: which servers are looked at, how often.

"{0+1:0.4, 2+3:0.35, 1+2:0.15, 0+1+2+3:0.1}"
[{servers = [0, 1], probability = 0.4}, ...]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import PolicyError

_SET = re.compile(r"\s*([\d+\s]*?)\s*:\s*([^:\s]+)\s*")
CLOSE = 1e-9  # how far from 1 the probabilities may sum


def law_text(written: Any) -> str:
    """Return a law, written either way, in its one canonical form.

    Raises
    ------
    PolicyError
        For an empty set, one named twice, a negative probability, or a sum that is not 1.
    """
    sets = dict(_pairs(written))
    inside = (f"{'+'.join(map(str, s))}:{p:.12g}" for s, p in sets.items())
    return "{" + ", ".join(inside) + "}"


def law_sets(text: str) -> dict[tuple[int, ...], float]:
    """Return a law in canonical form as {servers: probability}."""
    return dict(_pairs(text))


def _pairs(written: Any) -> list[tuple[tuple[int, ...], float]]:
    if isinstance(written, str):
        written = written.strip().removeprefix("{").removesuffix("}")
        found = [_parsed(part) for part in written.split(",") if part.strip()]
    elif isinstance(written, Mapping):
        found = [_checked(servers, probability) for servers, probability in written.items()]
    elif isinstance(written, Iterable):
        found = [_table(table) for table in written]
    else:
        raise PolicyError(f"law = {written!r} must read like '0+1:0.7, 2:0.3'")
    if not found:
        raise PolicyError("law names no set of servers; write it like '0+1:0.7, 2:0.3'")
    total = sum(probability for _, probability in found)
    if not abs(total - 1) <= CLOSE:
        raise PolicyError(f"the probabilities of the law sum to {total:.9g}; they must sum to 1")
    seen = set()
    for members, _ in found:
        if members in seen:
            raise PolicyError(f"law: the set {_shown(members)} is named twice; add its parts up")
        seen.add(members)
    return found


def _parsed(part: str) -> tuple[tuple[int, ...], float]:
    match = _SET.fullmatch(part)
    if not match:
        raise PolicyError(f"law: '{part.strip()}' should read like 0+1:0.7, servers from 0 on")
    members = [piece for piece in re.split(r"[+\s]+", match[1]) if piece]
    try:
        return _checked(map(int, members), float(match[2]))
    except ValueError:
        raise PolicyError(f"law: '{match[2]}' is not a probability") from None


def _table(table: Any) -> tuple[tuple[int, ...], float]:
    if not isinstance(table, Mapping) or set(table) != {"servers", "probability"}:
        raise PolicyError(f"law: {table!r} should have the keys servers and probability, no others")
    return _checked(table["servers"], table["probability"])


def _checked(servers: Any, probability: Any) -> tuple[tuple[int, ...], float]:
    members = [servers] if isinstance(servers, int) else list(servers)
    wrong = [s for s in members if isinstance(s, bool) or not isinstance(s, int) or s < 0]
    if wrong:
        raise PolicyError(f"law: {wrong[0]!r} is not a server; they are whole numbers from 0 on")
    if not members:
        raise PolicyError("law: a set is empty; every set must name a server")
    if len(set(members)) < len(members):
        raise PolicyError(f"law: a server is named twice in {_shown(members)}")
    if isinstance(probability, bool) or not isinstance(probability, int | float):
        raise PolicyError(f"law: {probability!r} is not a probability")
    if not 0 <= probability <= 1:
        raise PolicyError(f"law: a probability of {probability:g} must lie between 0 and 1")
    return tuple(sorted(members)), float(probability)


def _shown(members: Iterable[int]) -> str:
    return "{" + ", ".join(map(str, members)) + "}"
