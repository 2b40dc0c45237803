"""The fleets on which power of d choices loses nothing: the polytope M^(d).

    M^(d) = { x >= 0 : x(S) >= C(|S|, d)/C(n, d) x([n]) for every set S of servers },

speeds up to scale, so a cone; for ordered x only the j slowest servers matter, j = d .. n-1.
C(j, d) is convex in j, so the share of the fleet in each direction is a convex game and the cut
with x([n]) = 1 is its core: the hull of the points in which the servers' shares are, in some
order, C(j-1, d-1)/C(n, d), j = 1 .. n (a server's share of the tasks under a fixed order of
preference among those looked at). d = 1 is one point, all speeds equal; d = n the whole simplex.

Source: Hurtado-Lange, Maguluri 2021, section 3, Theorem 1; the vertices are worked out here.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from ...errors import EquipoiseError
from .binomials import share
from .fleet import as_fleet, check_draws

CHUNK = 1 << 18  # servers looked at together
ROUNDING = 1e-12
MOST_CORNERS = 8  # servers; 8! = 40 320 points


def in_polytope(servers: Any, d: int, *, strictly: bool = False) -> bool:
    """Return whether power of d choices loses nothing on this fleet.

    Parameters
    ----------
    servers
        Speeds (any unit), one per server, or groups of (count, speed).
    d
        Distinct servers looked at, 1 <= d <= their number.
    strictly
        Whether the fleet must lie in the interior, as heavy-traffic results ask: no equality for
        any j < n. Within 1e-12 of an equality, relative, counts as equal.

    Raises
    ------
    EquipoiseError
        If a speed is not > 0 or d is not allowed.
    """
    fleet = as_fleet(servers)
    d = check_draws(d, fleet.size)
    if fleet.size == 1:
        return True
    # Slack is concave inside a group (see `draws`), so least at its ends; at n it is 0 = 0, and in
    # the last group n - 1 stands in for it.
    groups = np.append(fleet.ends[:-1], fleet.size - 1)
    below = np.append(fleet.sums[:-1], fleet.capacity - fleet.speeds[-1])
    needed = share(groups, fleet.size, d)
    slack = (below / fleet.capacity - needed)[needed > 0] / needed[needed > 0]
    return bool(np.all(slack > ROUNDING if strictly else slack >= -ROUNDING))


def distance_to_boundary(servers: Any, d: int) -> float:
    """Return how far the speeds are from losing capacity, in the unit of the speeds.

    Inside M^(d): the Euclidean distance to its boundary, the least change of the vector of speeds
    after which some capacity is about to be lost. Outside: minus the distance to the farthest
    violated face's plane, a lower bound (in absolute value) of what must change. Costs O(n).

    Parameters and errors as `in_polytope`.

    Examples
    --------
    >>> round(distance_to_boundary([0.3, 0.6], 1), 6), round(distance_to_boundary([0.3, 0.6], 2), 6)
    (-0.212132, 0.3)
    """
    fleet = as_fleet(servers)
    d = check_draws(d, fleet.size)
    n, whole = fleet.size, fleet.capacity
    nearest = float(fleet.speeds[0])  # the faces x_i = 0
    ends, sums = np.append(0, fleet.ends), np.append(0.0, fleet.sums)
    for first in range(d, n, CHUNK):
        j = np.arange(first, min(first + CHUNK, n))
        p = share(j, n, d)
        slack = np.interp(j, ends, sums) - p * whole
        # the plane's normal has 1 - p in the j slowest, -p elsewhere
        nearest = min(nearest, float(np.min(slack / np.sqrt(j * (1 - p) ** 2 + (n - j) * p**2))))
    return nearest


def corners(n: int, d: int) -> np.ndarray:
    """Return the corners of M^(d) cut with "all speeds sum to 1", float64[k, n].

    All orders of the shares C(j-1, d-1)/C(n, d), j = 1 .. n, each point once. For n = 3 they are
    in the order in which they go round the polygon.

    Raises
    ------
    EquipoiseError
        If n is not 1 .. 8 or d is not 1 .. n.
    """
    if not 1 <= n <= MOST_CORNERS:
        raise EquipoiseError(f"n = {n} must be 1 to {MOST_CORNERS} to list the corners")
    d = check_draws(d, n)
    parts = np.diff(share(np.arange(n + 1), n, d))
    points = np.array(sorted(set(permutations(parts.tolist()))))
    if n == 3:
        angle = np.arctan2(
            (points[:, 1] - points[:, 2]) * np.sqrt(3),
            2 * points[:, 0] - points[:, 1] - points[:, 2],
        )
        points = points[np.argsort(angle)]
    return points
