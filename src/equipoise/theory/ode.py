"""Solving a limit's equation: from a start, to given times, with a stated error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import EquipoiseError

TOLERANCE = 1e-10


def trajectory(
    drift: Callable[[np.ndarray], np.ndarray], start: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Integrate dx/dt = drift(x) from x(0) = `start`; for smooth drifts.

    Parameters
    ----------
    start
        float64[levels].
    times
        float64[k], ascending, >= 0, in mean service times.

    Returns
    -------
    float64[k, levels], each entry to about 1e-8 (an 8th-order method at relative and absolute
    tolerance 1e-10).

    Raises
    ------
    EquipoiseError
        If the times are not ascending from 0 on, or the integration fails.
    """
    from scipy.integrate import solve_ivp  # 0.3 s, wanted only here

    times = np.asarray(times, dtype=float)
    # solve_ivp never ends on times that are not finite
    if (
        not times.size
        or times[0] < 0
        or not np.isfinite(times).all()
        or (np.diff(times) <= 0).any()
    ):
        raise EquipoiseError("times must ascend from 0 on")
    with np.errstate(divide="ignore", invalid="ignore"):  # its first step, from almost nothing
        solved = solve_ivp(
            lambda _, x: drift(x),
            (0.0, max(times[-1], 1e-12)),
            np.asarray(start, dtype=float),
            method="DOP853",
            t_eval=times,
            rtol=TOLERANCE,
            atol=TOLERANCE,
        )
    if not solved.success:
        raise EquipoiseError(f"the integration stopped at t = {solved.t[-1]:g}: {solved.message}")
    return solved.y.T
