"""What dispatchers and agents say to each other: JSON lines on one long-lived HTTP exchange.

The dispatcher opens `POST /.well-known/equipoise` at the agent and keeps it open. The request's
body and the response's are streams of lines, one JSON object each, at most `MOST_LINE` bytes:

    dispatcher: {"hello": 1, "version": "0.1.0", "dispatcher": "3f9c.0", "policy": "threshold",
                 "params": {"level": 8, "step": 1}, "announcement": 8, "period": null, "time": ..}
    agent:      {"hello": 1, "version": "0.1.0", "generation": "66d0c4f1.8a", "limit": 50,
                 "time": ..}
    agent:      {"m": 8, "received": 1234, "sequence": 17, "kind": "leave"}
    agent:      {"m": 0, "received": 1240, "sequence": 18, "kind": "answer", "number": 3}
    dispatcher: {"announce": 9, "number": 4}      a new threshold; answered with its number
    dispatcher: {"over": [1233, 1236]}            these tasks may not have come, and will not
    dispatcher: {"ask": 1}                        how is it? answered
    both:       {"beat": 1}                       I am still here; an agent adds the "sequence" of
                                                  its last message, so that none is missed unnoticed

A request that a dispatcher sends to a server carries `Equipoise-Task: DISPATCHER NUMBER`, numbers
counting from 1 up what it has sent there. `received` is how many of them the agent has seen, those
counted that were said to be over. So a message means: when I had received so many of your tasks I
had fewer than m, whoever sent them. The dispatcher adds what it has sent since.

A dispatcher's name is new after each of its starts, and for each life of a server, and so is an
agent's generation: nothing that was counted before is mistaken for the present.

Where a secret is agreed on, the request says `Authorization: Bearer SECRET`. A hello that does not
fit is answered with a status from 400 on and one line of text: 401 the secret, 400 what makes no
sense, 409 another policy than the agent is there for, 503 too many dispatchers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError, EquipoiseError

PROTOCOL = 1
PATH = "/.well-known/equipoise"
CONTENT_TYPE = "application/x-ndjson"  # both ways
TASK = "Equipoise-Task"  # on requests
REFUSED = "Equipoise-Refused"  # on a 503 of an agent: the task did not begin, another may take it
ORCA = "endpoint-load-metrics"  # on responses
MOST_LINE = 16 * 1024  # bytes
MOST_OVER = 512  # numbers in a line
BEAT = 1.0  # s between two signs of life
KINDS = ("join", "leave", "update", "answer")  # of messages, as `policies.steps` counts them

_NAME = re.compile(r"[0-9A-Za-z._-]{1,64}")
_HUGE = 1 << 53


class WireError(EquipoiseError):
    """A line that makes no sense, or a peer that does not fit."""


class Hello(NamedTuple):
    """A dispatcher's first line."""

    version: str
    dispatcher: str
    policy: str  # its name; file.py:NAME for one that a user wrote
    params: dict[str, Any]
    announcement: int
    period: float | None  # s between two updates of a server, for a policy with a clock
    time: float  # s since 1970


class Welcome(NamedTuple):
    """An agent's first line."""

    version: str
    generation: str
    limit: int | None  # most tasks that it takes
    time: float


class Message(NamedTuple):
    """When the agent had received so many of your tasks it had fewer than m; 0: it says nothing."""

    m: int
    received: int
    sequence: int  # of the stream, from 1
    kind: str  # of `KINDS`
    number: int = 0  # of the announcement that it answers


class Announce(NamedTuple):
    """A changed announcement."""

    value: int
    number: int


class Over(NamedTuple):
    """Tasks that may not have come, and will not."""

    numbers: tuple[int, ...]


class Ask(NamedTuple):
    """A question for the state."""


class Beat(NamedTuple):
    """A sign of life."""

    sequence: int = 0  # of an agent's last message on this stream; 0: it does not say


def line(said: NamedTuple) -> bytes:
    """Return what is said as a line, with its end."""
    if isinstance(said, Hello | Welcome):
        found: dict[str, Any] = {"hello": PROTOCOL, **said._asdict()}
    elif isinstance(said, Message):
        number = said.number
        more = b', "number": %d' % number if number else b""
        return b'{"m": %d, "received": %d, "sequence": %d, "kind": "%b"%b}\n' % (
            *said[:3],
            said.kind.encode(),
            more,
        )
    elif isinstance(said, Announce):
        found = {"announce": said.value, "number": said.number}
    elif isinstance(said, Over):
        found = {"over": list(said.numbers)}
    elif isinstance(said, Beat) and said.sequence:
        return b'{"beat": 1, "sequence": %d}\n' % said.sequence
    else:
        found = {"ask" if isinstance(said, Ask) else "beat": 1}
    return json.dumps(found).encode() + b"\n"


def of_agent(text: bytes) -> Welcome | Message | Beat:
    """Read a line of an agent. Raises `WireError`."""
    found = _object(text)
    if "m" in found:
        kind = found.get("kind")
        if kind not in KINDS:
            raise WireError(f"a message of kind {_said(kind)}; there are {', '.join(KINDS)}")
        m, received = _whole(found, "m"), _whole(found, "received")
        return Message(m, received, _whole(found, "sequence"), kind, _whole(found, "number", 0))
    if "beat" in found:
        return Beat(_whole(found, "sequence", 0))
    if "hello" not in found:
        raise WireError(f"an agent says none of m, beat, hello: {_shown(text)}")
    _same_protocol(found, "agent")
    limit = None if found.get("limit") is None else _whole(found, "limit")
    return Welcome(_text(found, "version"), _name(found, "generation"), limit, _time(found))


def of_dispatcher(text: bytes) -> Hello | Announce | Over | Ask | Beat:
    """Read a line of a dispatcher. Raises `WireError`."""
    found = _object(text)
    if "announce" in found:
        return Announce(_whole(found, "announce"), _whole(found, "number"))
    if "over" in found:
        numbers = found["over"]
        if not isinstance(numbers, list) or len(numbers) > MOST_OVER:
            raise WireError(f"over: a list of at most {MOST_OVER} whole numbers")
        return Over(tuple(_whole({"over": number}, "over") for number in numbers))
    if "ask" in found:
        return Ask()
    if "beat" in found:
        return Beat()
    if "hello" not in found:
        raise WireError(
            f"a dispatcher says none of announce, over, ask, beat, hello: {_shown(text)}"
        )
    _same_protocol(found, "dispatcher")
    params, period = found.get("params"), found.get("period")
    if not isinstance(params, Mapping):
        raise WireError("params: an object with the policy's parameters")
    seconds = _number(period)
    if period is not None and not (seconds is not None and 0 < seconds < 1e9):
        raise WireError("period: seconds above 0, or null")
    return Hello(
        _text(found, "version"),
        _name(found, "dispatcher"),
        _text(found, "policy"),
        dict(params),
        _whole(found, "announcement"),
        seconds,
        _time(found),
    )


def read_secret(file: str | os.PathLike[str]) -> str:
    """Return the word that agents ask of dispatchers, from a file. Raises `ConfigError`."""
    try:
        text = Path(file).read_text("ascii").strip()
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise ConfigError(f"{file}: {what}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not ASCII text") from None
    if not re.fullmatch(r"[!-~]{1,1000}", text):
        raise ConfigError(f"{file}: must be one word of ASCII, of at most 1000 characters")
    return text


def task(value: bytes) -> tuple[str, int] | None:
    """Read the value of `TASK`: dispatcher and number; None if it makes no sense."""
    name, _, number = value.partition(b" ")
    text = name.decode("latin-1")
    if not _NAME.fullmatch(text) or not number.isdigit() or len(number) > 15:
        return None
    return text, int(number)


def _object(text: bytes) -> dict[str, Any]:
    if len(text) > MOST_LINE:
        raise WireError(f"a line of more than {MOST_LINE} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise WireError(f"not a JSON object: {_shown(text)}")
    return found


def _same_protocol(found: Mapping[str, Any], who: str) -> None:
    spoken = found["hello"]
    if type(spoken) is not int or spoken != PROTOCOL:
        said = _said(found.get("version"))
        raise WireError(
            f"the {who}, equipoise {said}, speaks protocol {_said(spoken)} and this one speaks "
            f"{PROTOCOL}; run the same version on both sides"
        )


def _whole(found: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = found.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _HUGE:
        raise WireError(f"{key}: a whole number below 2^53, not {_said(value)}")
    return value


def _number(value: object) -> float | None:
    """Return a finite number as a float; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _HUGE:
        return None
    return float(value)


def _time(found: Mapping[str, Any]) -> float:
    value = _number(found.get("time"))
    if value is None:
        raise WireError("time: seconds since 1970")
    return value


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or len(value) > 1000:
        raise WireError(f"{key}: a text")
    return value


def _name(found: Mapping[str, Any], key: str) -> str:
    value = _text(found, key)
    if not _NAME.fullmatch(value):
        raise WireError(f"{key}: up to 64 letters, digits, dots, - and _")
    return value


def _said(value: object) -> str:
    """Say a value of whatever kind briefly, in one line."""
    if isinstance(value, list | dict):  # however long and deep
        return f"a {type(value).__name__}"
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ascii(value)[:80]


def _shown(text: bytes) -> str:
    return ascii(text[:80].decode("utf-8", "replace"))
