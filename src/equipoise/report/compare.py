"""What would these policies have done with this traffic?"""

from __future__ import annotations

from collections.abc import Iterable

from ..scenario import Scenario
from .results import Comparison
from .run import Progress, Written, study


def compare(
    scenario: Scenario,
    policies: Iterable[Written] | None = None,
    *,
    rank_by: str | None = None,
    kernel: str = "auto",
    confidence: float = 0.95,
    progress: Progress | None = None,
    workers: int | None = None,
    command: str = "",
) -> Comparison:
    """Put policies in front of the same traffic and rank them.

    Replication r of every policy starts from the same streams, so differences are paired by
    replication. The warm-up is the same for all: the longest any of them needs by MSER-5, or the
    one the scenario gives; nothing is left out where the traffic changes over time.

    With `run.precision` in the scenario, replications are added until every policy's interval of
    `run.precision_of`, or of what ranks, is that narrow. Ctrl-C (KeyboardInterrupt) ends the run at
    once: the replications that are finished for all policies make a result, which says how many
    they are and has `interrupted` set; it is raised only where there is none.

    Parameters
    ----------
    scenario
        What is studied; its `run` says how long, how often and from which seed.
    policies
        Labels (`"jsq-d(d=3)"`), constructors (`Threshold(level=9)`), a user's `"file.py:NAME"` or
        `Policy`. The scenario's own if left out, or a telling few if it names none.
    rank_by
        A metric of `METRICS`. `imbalance` for pools and `mean_response` for queues if left out.
    kernel
        "memoryless", "events", "occupancy", or "auto": the cheapest that is exact. "leap" or
        "leap(step=0.005)" for fleets beyond that, with an error that the notes state.
    confidence
        Of all intervals, in (0, 1).
    progress
        Called with the fraction done and what is being run, from any thread.
    workers
        Replications at once; one for each core if left out, and no more than cores. They do not
        change the numbers. Within `joblib.parallel_config(backend=...)` that backend runs them.
    command
        What to type to get this again, for the record.

    Raises
    ------
    EquipoiseError
        `PolicyError` for policies that are unknown, wrong or break; anything else with its reason.
    """
    return study(
        scenario,
        policies,
        rank_by=rank_by,
        kernel=kernel,
        confidence=confidence,
        progress=progress,
        workers=workers,
        command=command,
        result=Comparison,
    )
