"""What theory knows about server pools: thresholds, fixed and learning, jsq, jsq-d, random.

A pool works on all its tasks at once. Time is in mean service times, load in tasks per pool.
`describe` has all that is known about one policy; behind it are

    states         shares, occupancy, the balanced state
    offered_load   rho(t) of rates that vary and of service in phases
    fluid          trajectories as n grows: serve, then fill          (kernel: its compiled step)
    modes          the same by another method, as a check
    stationary     where they come to rest, messages per task, best thresholds
    pairs          missing tasks and fuller pools: an exact chain at finite n; how often l moves
    diffusion      deviations of order n^(-1/2), their laws and paths
    learning       where a learning threshold settles, when, at what cost

    >>> from equipoise.theory import pools
    >>> answer = pools.describe(2.5, servers=100, policy="threshold", level=4)
    >>> answer.rest.regime, round(answer.rest.theta, 6), answer.best_level
    ('too high', 0.235989, 2)
"""

from __future__ import annotations

from .describe import PoolTheory, describe
from .diffusion import (
    Paths,
    Spread,
    WholeLoad,
    autocorrelation,
    ornstein_uhlenbeck,
    reflected,
    spread,
    whole_load,
)
from .fluid import Change, FluidPath
from .learning import (
    Cost,
    Equilibria,
    Settling,
    alpha_for_bound,
    alpha_for_load,
    alpha_vanishing,
    best_level,
    cost_of,
    drop_load,
    equilibria,
    hysteresis,
    settling_bound,
    times_from_empty,
    total_settling,
    wanted_levels,
)
from .modes import threshold_by_modes
from .offered_load import (
    Constant,
    Coxian,
    Curve,
    Piecewise,
    Rate,
    Sinusoid,
    Table,
    crossings,
    offered_load,
    phase_loads,
    resting_load,
)
from .pairs import PairLaw, pair_law, threshold_changes, total_changes
from .states import balanced, distance, mean_tasks, occupancy_of, shares_from, shares_of
from .stationary import (
    Rest,
    cut_poisson,
    erlang_b,
    imbalance,
    jsq_d_rest,
    load_with,
    optimal_levels,
    random_rest,
    rest_point,
)

__all__ = [
    "Change",
    "Constant",
    "Cost",
    "Coxian",
    "Curve",
    "Equilibria",
    "FluidPath",
    "PairLaw",
    "Paths",
    "Piecewise",
    "PoolTheory",
    "Rate",
    "Rest",
    "Settling",
    "Sinusoid",
    "Spread",
    "Table",
    "WholeLoad",
    "alpha_for_bound",
    "alpha_for_load",
    "alpha_vanishing",
    "autocorrelation",
    "balanced",
    "best_level",
    "cost_of",
    "crossings",
    "cut_poisson",
    "describe",
    "distance",
    "drop_load",
    "equilibria",
    "erlang_b",
    "hysteresis",
    "imbalance",
    "jsq_d_rest",
    "load_with",
    "mean_tasks",
    "occupancy_of",
    "offered_load",
    "optimal_levels",
    "ornstein_uhlenbeck",
    "pair_law",
    "phase_loads",
    "random_rest",
    "reflected",
    "rest_point",
    "resting_load",
    "settling_bound",
    "shares_from",
    "shares_of",
    "spread",
    "threshold_by_modes",
    "threshold_changes",
    "times_from_empty",
    "total_changes",
    "total_settling",
    "wanted_levels",
    "whole_load",
]
