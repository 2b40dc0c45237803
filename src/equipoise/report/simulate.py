"""What does this policy do with this traffic?"""

from __future__ import annotations

from typing import cast

from ..scenario import Scenario
from .results import Simulation
from .run import Progress, Written, study


def simulate(
    scenario: Scenario,
    policy: Written,
    *,
    kernel: str = "auto",
    confidence: float = 0.95,
    progress: Progress | None = None,
    workers: int | None = None,
    command: str = "",
    replication: int | None = None,
    leave_out: float | None = None,
) -> Simulation:
    """Estimate everything about one policy on a scenario. Parameters and errors as `compare`.

    Parameters
    ----------
    replication
        Run only this one of the scenario's replications, counted from 0: it draws what it drew
        beside the others, so its path and sums are the same to the last digit.
    leave_out
        The share of the run, in [0, 1), to leave out at the start in place of the warm-up that the
        scenario gives or a rule finds. With the `left_out` of a whole study a replication that is
        redone alone has the very numbers that it has there, which `Comparison.redo` does.

    Examples
    --------
    >>> s = Scenario.simple(servers=10, load=0.5, tasks=20_000, replications=4)
    >>> simulate(s, "jsq-d").metrics["mean_tasks"]  # doctest: +SKIP
    """
    done = study(
        scenario,
        [policy],
        rank_by=None,
        kernel=kernel,
        confidence=confidence,
        progress=progress,
        workers=workers,
        command=command,
        result=Simulation,
        replication=replication,
        leave_out=leave_out,
    )
    return cast(Simulation, done)
