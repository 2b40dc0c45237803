"""JSQ on sparse feedback in the limit of many servers: what little feedback can do.

The dispatcher keeps an estimate of each length that is never too low: it counts its own tasks, and
corrects an estimate when the server tells its length. It sends to a lowest estimate. The schemes
differ in when servers tell: all at once or each in its own time, at equal or at exponential gaps
of mean 1/delta, all of them or only those that are idle.

Which file answers what: `filling` what happens between updates, exactly; `synchronous` and
`asynchronous` where a fleet comes to rest; `fluid` how it gets there; `extremes` how much feedback
is enough and what is left of next to none; `baselines` what the schemes are held against; `budget`
which is the best for so many messages per task.

Servers work on one task after the other, sizes are exponential with mean 1, which is the unit of
time; load is tasks per server and mean service time.

    >>> from equipoise.theory import sparse
    >>> rest = sparse.equilibrium("sujsq-det", load=0.7, delta=0.7)
    >>> round(rest.mean_wait, 4), round(sparse.baselines.jsq_d(0.7).mean_wait, 4)
    (0.3092, 0.6145)

Source: van der Boor, Borst, van Leeuwaarden 2019, Hyper-Scalable JSQ with Sparse Feedback, Proc.
ACM Meas. Anal. Comput. Syst. 3(1). What each file adds to it is said there.
"""

from __future__ import annotations

from . import baselines
from .asynchronous import RestPoint, aujsq_det, aujsq_exp
from .base import MODES, SCHEMES, Equilibrium, check_scheme, messages_per_task
from .baselines import Baseline, sparsified_jiq
from .budget import Option, Recommendation, recommend
from .extremes import RareUpdates, no_waiting_delta, rare_updates
from .fluid import Trajectory, trajectory
from .synchronous import (
    Period,
    Periodic,
    level_bound,
    long_run_bound,
    period,
    sujsq_det,
    sujsq_exp,
    water_level,
)

_SOLVERS = {
    "sujsq-det": sujsq_det,
    "sujsq-exp": sujsq_exp,
    "aujsq-det": aujsq_det,
    "aujsq-exp": aujsq_exp,
}


def equilibrium(scheme: str, load: float, delta: float, *, idle_only: bool = False) -> Equilibrium:
    """Return where a scheme, one of SCHEMES, comes to rest; see the function of its name.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If the scheme is unknown, load <= 0 or delta <= 0.
    """
    return _SOLVERS[check_scheme(scheme)](load, delta, idle_only=idle_only)


__all__ = [
    "MODES",
    "SCHEMES",
    "Baseline",
    "Equilibrium",
    "Option",
    "Period",
    "Periodic",
    "RareUpdates",
    "Recommendation",
    "RestPoint",
    "Trajectory",
    "aujsq_det",
    "aujsq_exp",
    "baselines",
    "equilibrium",
    "level_bound",
    "long_run_bound",
    "messages_per_task",
    "no_waiting_delta",
    "period",
    "rare_updates",
    "recommend",
    "sparsified_jiq",
    "sujsq_det",
    "sujsq_exp",
    "trajectory",
    "water_level",
]
