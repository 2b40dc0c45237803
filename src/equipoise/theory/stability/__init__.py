"""Which load a policy can carry on unequal servers, and which servers hold it back.

One file per question: `draws` (power of d choices, random, by weight), `laws` (any sampling law),
`policies` (what is known of every registered policy), `polytope` (fleets on which nothing is
lost), `design` (laws made to carry a load). All answer with a `Stability`; slotted and continuous
time have the same answers, since only mean rates enter.

    >>> from equipoise.theory import stability
    >>> print(stability.jsq_d([(5, 0.9), (5, 0.1)], d=2, rate=2.0).verdict)
    stable at load 0.4 (2 tasks per unit of time); jsq-d(d=2) carries load 0.45 of 1 (2.25 tasks \
per unit of time; loses 55 % of the capacity); bottleneck: the 5 slowest of 10 servers (speed \
0.1), which must take 22.2 % of the tasks with 10 % of the speed
"""

from __future__ import annotations

from .design import Design, cheapest_law, fewest_looks, smallest_d
from .draws import capacity_by_d, jsq, jsq_d, mixture, proportional, random, weighted
from .fleet import Fleet, as_fleet
from .laws import Law, as_law, sampled
from .policies import policy_stability, tokens
from .polytope import corners, distance_to_boundary, in_polytope
from .result import Stability

__all__ = [
    "Design",
    "Fleet",
    "Law",
    "Stability",
    "as_fleet",
    "as_law",
    "capacity_by_d",
    "cheapest_law",
    "corners",
    "distance_to_boundary",
    "fewest_looks",
    "in_polytope",
    "jsq",
    "jsq_d",
    "mixture",
    "policy_stability",
    "proportional",
    "random",
    "sampled",
    "smallest_d",
    "tokens",
    "weighted",
]
