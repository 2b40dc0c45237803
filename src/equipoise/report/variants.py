"""The same traffic in front of other servers, more of it, and messages that take longer.

What is kept is the traffic in tasks per second, not the load: with fewer servers each has more to
do. A scenario that gives a load is therefore first written down in rates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EquipoiseError
from ..scenario import Scenario
from ..scenario.arrivals import Mean, Rates, Sinusoid, TraceArrivals


def with_servers(scenario: Scenario, count: int) -> Scenario:
    """Return the scenario with so many servers in front of the same traffic.

    Raises
    ------
    EquipoiseError
        If the servers differ in speed (which of them to add is not known), or so few cannot do the
        work (`UnstableError`).
    """
    servers = scenario.servers
    if not servers.identical:
        raise EquipoiseError(
            f"servers = {count}: the servers of this scenario differ in speed, and it is not known "
            "which to add or leave out; write their groups into the scenario"
        )
    return _changed(scenario, servers=_table(scenario, count=count))


def without_one(scenario: Scenario) -> Scenario | None:
    """Return the scenario with one server less, a fastest one; None if there is only one."""
    servers = scenario.servers
    if servers.count < 2:
        return None
    if servers.identical:
        return with_servers(scenario, servers.count - 1)
    speeds = servers.speed_of
    kept = np.delete(speeds, int(speeds.argmax())).tolist()
    return _changed(scenario, servers=_table(scenario, count=None, groups=None, speeds=kept))


def with_load(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with `factor` times the tasks per second.

    Of a trace the clock runs faster: the same tasks in less time, so that bursts stay bursts.

    Raises
    ------
    UnstableError
        If the servers cannot do so much.
    """
    arrivals = scenario.arrivals
    if isinstance(arrivals, TraceArrivals):
        old = scenario.recording
        return scenario.with_recording(old._replace(times=old.times / factor))
    return _changed(scenario, factor=factor)


def with_delay(scenario: Scenario, delay: float) -> Scenario:
    """Return the scenario with messages that take `delay` seconds each."""
    return scenario._with(messages={"delay": delay}, run=scenario._run_as_given())


def _changed(scenario: Scenario, factor: float = 1.0, **changes: Any) -> Scenario:
    run = scenario._run_as_given()
    if "servers" in changes and isinstance(scenario.run.start, tuple):
        run["start"] = "balanced"  # the lengths given were those of other servers
    arrivals = scenario.arrivals
    if isinstance(arrivals, Mean):
        table = arrivals.model_dump(exclude_none=True)
        unit = 1.0
        if arrivals.load is not None:
            unit = scenario.servers.capacity / scenario.mean_service
            table["rate"] = table.pop("load") * unit
        if isinstance(arrivals, Sinusoid):
            table["amplitude"] *= unit
        changes["arrivals"] = {**table, "scale": arrivals.scale * factor}
    elif isinstance(arrivals, Rates) and factor != 1.0:
        more = arrivals.model_copy(update={"scale": arrivals.scale * factor})
        more.__dict__.pop("table", None)  # was made with the old scale
        changes["arrivals"] = more
    return scenario._with(run=run, **changes)


def _table(scenario: Scenario, **changes: Any) -> dict[str, Any]:
    """Return the [servers] table with changes; None takes a key out."""
    table = scenario.servers.model_dump(exclude_none=True) | changes
    return {key: value for key, value in table.items() if value is not None}
