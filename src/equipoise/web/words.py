"""How the dispatcher is, in one line for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..live.health import State
from ..live.reading import SLOW

MUCH = 0.01  # from this share of requests that went wrong on it is said
FEW = 10  # unless they are fewer
NAMED = 2  # servers that are named before the rest is counted
WORDS: dict[str, str] = {State.NEW: "not up yet", State.DRAINING: "on its way out"}


class Health(NamedTuple):
    """A line, how bad it is, and what else there is to say."""

    level: str  # good, watch or bad
    words: str
    more: tuple[str, ...] = ()  # sentences


class Trouble(NamedTuple):
    """A server that is not up, or starts slowly."""

    name: str
    state: str
    why: str


def health(
    servers: int,
    up: int,
    trouble: Sequence[Trouble],
    *,
    draining: bool = False,
    under_way: int = 0,
    queued: int = 0,
    requests: float = 0,
    errors: float = 0,
    unheard: Sequence[Trouble] = (),
    deaf: bool = False,
    workers: int = 1,
    silent: Sequence[int] = (),
) -> Health:
    """Return the line.

    Parameters
    ----------
    servers, up
        How many there are; how many serve, those that start slowly too.
    trouble
        Those that do not, what is worst first; and those that start slowly.
    draining
        The dispatcher is stopping.
    requests, errors
        Of the last minute.
    unheard, deaf
        Those whose agents are not heard; no server that serves is.
    workers, silent
        How many processes there are; which of them do not answer.
    """
    if draining:
        return Health("watch", f"Stopping: no more requests are taken, {under_way:,} under way.")
    if len(silent) == workers:
        return Health("bad", "No worker answers.")
    if not servers:
        return Health("watch", "Nothing is known of the servers yet.")
    out = [one for one in trouble if one.state != SLOW]
    slow = [one.name for one in trouble if one.state == SLOW]
    level = "watch" if out or queued or silent or unheard else "good"
    words = _serving(servers, up, out)
    if deaf:
        words += f", but {'none is' if up > 1 else 'it is not'} heard: choices are random"
        level = "bad"
    more = [f"{one.name}: {one.why}." for one in out[:NAMED] if one.why]
    if errors >= FEW and errors >= MUCH * requests:
        words += f", and {_share(errors, requests)} of requests went wrong in the last minute"
        level = "bad"
    if queued:
        waits = "1 request waits" if queued == 1 else f"{queued:,} requests wait"
        more.append(f"{waits}: every server that serves is full." if up else f"{waits}.")
    if slow:
        more.append(_listed(slow, "starts slowly", "start slowly") + ".")
    if silent:
        more.append(_silent(silent))
    if len(unheard) > NAMED:
        more.append(f"{len(unheard):,} servers are not heard.")
    else:
        more += [
            f"{one.name} is not heard" + (f": {one.why}." if one.why else ".") for one in unheard
        ]
    return Health("bad" if up == 0 else level, words + ".", tuple(more))


def _serving(servers: int, up: int, out: Sequence[Trouble]) -> str:
    if not out:
        return f"All {servers:,} servers serve" if servers > 1 else "The server serves"
    who = [f"{one.name} is {WORDS.get(one.state, one.state)}" for one in out[:NAMED]]
    if len(out) > NAMED:
        rest = len(out) - NAMED
        who.append(f"{rest:,} more " + ("does not" if rest == 1 else "do not"))
    if up == 0:
        return f"No server serves: {', '.join(who)}"
    some = f"{up:,} of {servers:,} server{'s' * (servers != 1)} serve{'s' * (up == 1)}"
    return f"{some}: {', '.join(who)}"


def _silent(silent: Sequence[int]) -> str:
    if len(silent) == 1:
        return f"Worker {silent[0]} does not answer."
    if len(silent) > NAMED:
        return f"{len(silent)} of the workers do not answer."
    return f"Workers {' and '.join(map(str, silent))} do not answer."


def _listed(names: Sequence[str], one: str, more: str) -> str:
    if len(names) > NAMED:
        return f"{len(names):,} servers {more}"
    return " and ".join(names) + " " + (one if len(names) == 1 else more)


def _share(part: float, whole: float) -> str:
    share = 100 * part / max(whole, part)
    return f"{share:.0f} %" if share >= 2 else f"{share:.1f} %"
