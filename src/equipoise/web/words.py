"""How the dispatcher is, in one line for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..live.health import State
from .reading import SLOW

MUCH = 0.01  # from this share of requests that went wrong on it is said
FEW = 10  # unless they are fewer
NAMED = 2  # servers that are named before the rest is counted


class Health(NamedTuple):
    """One line, and how bad it is."""

    level: str  # good, watch or bad
    words: str


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
    deaf: bool = False,
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
    deaf
        No server's messages are heard.
    """
    if draining:
        return Health("watch", f"Stopping: no more requests are taken, {under_way} under way.")
    out = [one for one in trouble if one.state != SLOW]
    level = "bad" if up == 0 else "watch" if out else "good"
    parts = [_serving(servers, up, out)]
    slow = [one.name for one in trouble if one.state == SLOW]
    if slow:
        parts.append(_listed(slow, "starts slowly", "start slowly"))
    if queued:
        waits = "1 request waits" if queued == 1 else f"{queued:,} requests wait"
        parts.append(waits + ("" if up == 0 else ": every server is full"))
        level = "bad" if up == 0 else "watch"
    if errors >= FEW and errors >= MUCH * requests:
        parts.append(f"{_share(errors, requests)} of the last minute's requests went wrong")
        level = "bad"
    if deaf:
        parts.append("no server is heard, so choices are random")
        level = "bad"
    return Health(level, "; ".join(parts) + ".")


def _serving(servers: int, up: int, out: Sequence[Trouble]) -> str:
    some = "server" if servers == 1 else "servers"
    if not out:
        return f"All {servers:,} servers serve" if servers > 1 else "The server serves"
    who = [f"{one.name} is {_state(one)}" for one in out[:NAMED]]
    if len(out) > NAMED:
        who.append(f"{len(out) - NAMED:,} more " + ("is" if len(out) == NAMED + 1 else "are") + " out")
    names = ", ".join(who)
    if up == 0:
        return f"No server serves: {names}"
    return f"{up:,} of {servers:,} {some} {'serves' if up == 1 else 'serve'}: {names}"


def _state(one: Trouble) -> str:
    if one.state == State.DRAINING:
        return "on its way out"
    if one.state == State.NEW:
        return f"not up yet ({one.why})" if one.why else "not up yet"
    return f"{one.state} ({one.why})" if one.why else one.state


def _listed(names: Sequence[str], one: str, more: str) -> str:
    if len(names) > NAMED:
        return f"{len(names):,} servers {more}"
    return " and ".join(names) + " " + (one if len(names) == 1 else more)


def _share(part: float, whole: float) -> str:
    share = 100 * part / max(whole, part)
    return f"{share:.0f} %" if share >= 2 else f"{share:.1f} %"
