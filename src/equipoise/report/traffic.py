"""From a file of either kind to a scenario: a scenario's TOML, or a log whose tasks are replayed.

A log says when each task came and how long it took; what it seldom says is how the servers work,
so that comes from the caller. Every recorded task is replayed, with the time that the log gives for
it: at the server where it is known, else in all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import TraceError
from ..scenario import Scenario
from ..scenario.flags import parse_curve, parse_service
from ..scenario.trace import Recording

if TYPE_CHECKING:
    from ..logs import Log

LOOK = 65_536  # bytes of a file in which a scenario has named its servers


class Traffic(NamedTuple):
    """What a file became, and what there is to know about it, a sentence each."""

    scenario: Scenario
    notes: tuple[str, ...] = ()


def is_scenario(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a scenario: by its name, or because it has a table of servers."""
    path = Path(path)
    if path.suffix.lower() == ".toml" or not path.is_file():
        return True  # whatever is wrong with it is said where scenarios are read
    try:
        with path.open("rb") as file:
            lines = file.read(LOOK).splitlines()
    except OSError:
        return True
    return any(line.split(b"#")[0].strip() == b"[servers]" for line in lines)


def scenario_of(path: str | os.PathLike[str], **options: Any) -> Scenario:
    """Return the scenario that a file holds, or the replay of a log; see `traffic_of`."""
    return traffic_of(path, **options).scenario


def traffic_of(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    servers: int | None = None,
    discipline: str | None = None,
    workers: int | None = None,
    curve: str | None = None,
    limit: int | None = None,
    service: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    **run: Any,
) -> Traffic:
    """Return the scenario that a file holds, or the replay of a log, and notes on it.

    Parameters
    ----------
    path
        A scenario's TOML, or a log or trace in any format that `read_log` knows.
    format
        Of a log; found from its lines if left out.
    servers
        How many; those that the log names if left out.
    discipline
        How they work; "pool" if left out, which keeps every recorded time as it was.
    workers, curve, limit
        As in `Scenario.simple`.
    service
        A law of the service time, such as "lognormal(mean=0.2, scv=4)", in place of the recorded
        times; needed where the log has none.
    run
        Keys of `Run`, for logs.

    Raises
    ------
    EquipoiseError
        If a log does not say how long tasks took and no law does; if it names no servers and
        their number is not given; or as `Scenario.from_toml` and `read_log`.
    """
    if is_scenario(path):
        return Traffic(Scenario.from_toml(path))
    from ..logs import read_log

    log = read_log(path, format, on_progress=on_progress)
    named = len(log.tasks.servers) if log.tasks is not None else 0
    if servers is None and not named:
        raise TraceError(f"{path}: names no servers; say how many there are, e.g. --servers 12")
    notes = list(log.notes)
    if discipline is None:
        notes.append(
            "A server is taken to work on all its tasks at once (pool), so that every task takes "
            "as long as it did; --discipline says otherwise."
        )
    tables: dict[str, Any] = {
        "name": Path(path).name,
        "servers": _given(
            count=servers or named,
            discipline=discipline or "pool",
            workers=workers,
            curve=parse_curve(curve) if curve is not None else None,
            limit=limit,
        ),
        "run": _given(**run),
    }
    if log.tasks is None:
        return Traffic(_from_counts(path, log, tables, service), tuple(notes))
    scenario, note = _replay(path, log, tables, service)
    return Traffic(scenario, (*notes, *note))


def _replay(
    path: str | os.PathLike[str], log: Log, tables: dict[str, Any], service: str | None
) -> tuple[Scenario, list[str]]:
    """Return the scenario in which every recorded task comes as it came."""
    assert log.tasks is not None
    times, sizes = log.tasks.arrival, log.tasks.work
    notes: list[str] = []
    tables["arrivals"] = {"law": "trace", "file": os.fspath(path), "time": "arrival"}
    if service is not None:
        tables["service"] = parse_service(service)
        return Scenario.from_dict(tables).with_recording(_recording(times, None)), notes
    known = np.isfinite(sizes) & (sizes >= 0)
    if not known.any():
        raise _no_durations(path)
    if not known.all():
        notes.append(f"{int((~known).sum())} of {known.size} tasks have no time and are left out.")
    tables["service"] = {"law": "trace", "column": "service"}
    recording = _recording(times[known], sizes[known])
    return Scenario.from_dict(tables).with_recording(recording), notes


def _from_counts(
    path: str | os.PathLike[str], log: Log, tables: dict[str, Any], service: str | None
) -> Scenario:
    """Return the scenario of a Poisson stream at the counted rates."""
    assert log.counts is not None
    if service is None:
        raise _no_durations(path)
    rates = log.counts.rates().tolist()
    tables["arrivals"] = {"law": "rates", "bin": log.counts.bin, "rates": rates}
    tables["service"] = parse_service(service)
    return Scenario.from_dict(tables)


def _recording(times: np.ndarray, sizes: np.ndarray | None) -> Recording:
    return Recording(times - times[0], sizes)


def _no_durations(path: str | os.PathLike[str]) -> TraceError:
    return TraceError(
        f"{path}: does not say how long tasks took; give a law of the service time, e.g. "
        "--service 'lognormal(mean=0.2, scv=4)'"
    )


def _given(**values: Any) -> Mapping[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
