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
) -> Simulation:
    """Estimate everything about one policy on a scenario. Parameters and errors as `compare`.

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
    )
    return cast(Simulation, done)
