"""The figures of the papers on thresholds that learn, and two that they suggest.

Scenarios: Goldsztajn, Borst, van Leeuwaarden, Mukherjee, Whiting (2022), INFORMS J. Computing
34(1), sections 4 and 5, with the parameters of the authors' own programs; service is exponential
of mean 1. Published numbers: the data beside that paper (single runs, or means of 15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..palette import LOOKS, USUAL
from ..pictures import INK, QUIET
from .base import (
    Reproduction,
    Row,
    Told,
    mean_and_error,
    part,
    plain_axes,
    q_of,
    records,
    threshold_shares,
    titled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AUTHORS = "authors' data"
RERUN = "200 runs of the authors' rule"
LIMIT = "limit of many pools"
# time at thresholds 0 .. 5, number and time of changes of 200 independent runs of the authors'
# rule: n = 500, lam = 5.5, alpha = .925, from empty, horizon 10
SETTLING = (
    (0.02004, 0.00007), (0.02513, 0.0001), (0.03395, 0.0002), (0.05085, 0.0003), (0.1107, 0.0015),
    (0.7593, 0.0016),
)  # fmt: skip
CHANGES, LAST_CHANGE = (5.09, 0.03), (2.419, 0.017)
# of the shares at 9, 10 and 11: means of 15 runs, and the standard deviation between runs
SHARES = {
    "threshold(level=10)": {9: 0.00183, 10: 0.47631, 11: 0.52185},
    "jsq": {9: 0.00217, 10: 0.48957, 11: 0.50826},
}
SHARE_ERROR = {9: 0.0007 / 15**0.5, 10: 0.074 / 15**0.5, 11: 0.074 / 15**0.5}
# the same as SETTLING at load 2.9 and alpha .97, horizon 12, by n: thresholds 0 .. 3, changes, last
NEAR = {
    100: (((0.0359, 0.0003), (0.0827, 0.0011), (0.7892, 0.0038), (0.0923, 0.0037)), (116.1, 2.7),
          (11.52, 0.04)),
    400: (((0.0352, 0.0001), (0.0630, 0.0004), (0.8477, 0.0035), (0.0542, 0.0034)), (19.2, 0.9),
          (9.23, 0.21)),
}  # fmt: skip


def _tables(n: int, rate: float, horizon: float, start: Any, seed: int) -> dict[str, Any]:
    return {
        "servers": {"count": n, "discipline": "pool"},
        "arrivals": {"law": "poisson", "load": rate},
        "service": {"law": "exponential", "mean": 1.0},
        "run": {"duration": horizon, "warm_up": 0.0, "start": start, "seed": seed},
    }


# --- Settling ------------------------------------------------------------------------------------


def settling(runs: int = 100, seed: int = 1, told: Told = None) -> Reproduction:
    """The threshold from empty, from full and from twice the load: n = 500, load 5.5."""
    from ...theory import pools

    n, load, alpha = 500, 5.5, 0.925
    starts = {
        "empty, threshold 0": ([0] * n, 0, "empty"),
        "9 tasks at every pool, threshold 9": ([9] * n, 9, 9),
        "twice the load, threshold 11": ([11] * n, 11, 11.0),
    }
    found, rows = {}, []
    for i, (name, (lengths, level, begin)) in enumerate(starts.items()):
        done = records(
            _tables(n, load, 10.0, lengths, seed),
            {"name": "learning-threshold", "alpha": alpha, "level": level, "rule": "program"},
            runs,
            part(told, i / 3, (i + 1) / 3),
            name,
        )
        times = np.linspace(0, 10, 201)
        fluid = pools.describe(load, n, level=level, alpha=alpha, start=begin, times=times)
        found[name] = (done, fluid)
        last = mean_and_error([r.last_change or 0.0 for r in done])
        if level == 0:
            rows += _from_empty(done)
        else:
            rows.append(Row(f"last change, {name}", *last, fluid.settled or 0.0, 0.0, LIMIT, True))
            levels = [int(np.flatnonzero(r.thresholds[-1])[-1]) for r in done]
            rows.append(Row(f"final threshold, {name}", *mean_and_error(levels), 5.0, 0.0,
                            LIMIT, True))  # fmt: skip
    setting = f"{n} pools, load {load}, alpha = {alpha}, {runs} runs of 10 mean service times each"
    title = "The threshold finds 5, the right one for load 5.5, from every start"
    return Reproduction(
        "settling", title, setting, tuple(rows), lambda: _draw_settling(found, n, title, setting),
        seed,
    )  # fmt: skip


def _from_empty(done: list[Any]) -> list[Row]:
    shares = np.array([np.pad(threshold_shares(r), (0, 20))[:20] for r in done])
    rows = [
        Row(f"share of time at threshold {level}, from empty", *mean_and_error(shares[:, level]),
            value, error, RERUN)
        for level, (value, error) in enumerate(SETTLING)
    ]  # fmt: skip
    changes = [int(r.messages[:, 6].sum()) for r in done]
    rows.append(Row("changes, from empty", *mean_and_error(changes), *CHANGES, RERUN))
    last = mean_and_error([r.last_change or 0.0 for r in done])
    rows.append(Row("last change, from empty", *last, *LAST_CHANGE, RERUN))
    return rows


def _draw_settling(found: dict[str, Any], n: int, title: str, under: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6.2))
    for place, (name, (done, fluid)) in enumerate(found.items()):
        left = 0.065 + place * 0.315
        over = figure.add_axes((left, 0.40, 0.275, 0.42))
        below = figure.add_axes((left, 0.09, 0.275, 0.22), sharex=over)
        ends, q = q_of(done[0], n)
        middle = (np.concatenate(([0.0], ends[:-1])) + ends) / 2
        lam = fluid.load
        from ...theory.pools import balanced, distance

        star = balanced(lam, max(q.shape[1], 14))
        wide = np.pad(q, ((0, 0), (0, star.size - q.shape[1])))
        gap = np.sqrt(((wide - star) ** 2)[:, 1:].sum(axis=1))
        theory = distance(fluid.path.occupancy, lam)
        over.plot(fluid.path.times, theory, color=INK, linewidth=1.2, dashes=(5, 2),
                  label="limit of many pools")  # fmt: skip
        over.plot(middle, gap, color=LOOKS[0].light, marker="o", markersize=3, linewidth=1.0,
                  label=f"{n} pools, one run")  # fmt: skip
        over.set_title(name, fontsize=10, loc="left", color=QUIET)
        over.set_ylim(bottom=0)
        if place == 0:
            over.set_ylabel("distance from the balanced state")
            below.set_ylabel("threshold, most tasks")
            over.legend(frameon=False, fontsize=8.5)
        path = done[0].path
        below.step(path["times"], path["threshold"], where="post", color=LOOKS[0].light,
                   linewidth=1.8)  # fmt: skip
        below.step(path["times"], path["most"], where="post", color=LOOKS[1].light, linewidth=1.2,
                   linestyle=(0, (9, 3)))  # fmt: skip
        below.set_xlabel("mean service times")
        below.set_ylim(bottom=0)
        over.tick_params(labelbottom=False)
        plain_axes(over)
        plain_axes(below)
    below.text(0.98, 0.06, "solid: threshold; dashed: largest pool", transform=below.transAxes,
               fontsize=8, color=QUIET, ha="right")  # fmt: skip
    titled(figure, title, under)
    return figure


# --- Near a whole number -------------------------------------------------------------------------


def near(runs: int = 200, seed: int = 1, told: Told = None) -> Reproduction:
    """A load near a whole number makes few pools change their threshold often: load 2.9."""
    load, alpha = 2.9, 0.97
    found, rows = {}, []
    for i, (n, (times, changes, last)) in enumerate(NEAR.items()):
        policy = {"name": "learning-threshold", "alpha": alpha, "level": 0, "rule": "program"}
        done = records(_tables(n, load, 12.0, "empty", seed), policy, runs,
                       part(told, i / 2, (i + 1) / 2), f"n = {n}")  # fmt: skip
        found[n] = done[0].path
        shares = np.array([np.pad(threshold_shares(r), (0, 20))[:20] for r in done])
        for level, (value, error) in enumerate(times):
            rows.append(Row(f"n = {n}: share of time at threshold {level}",
                            *mean_and_error(shares[:, level]), value, error, RERUN))  # fmt: skip
        moved = [int(r.messages[:, 6].sum()) for r in done]
        rows.append(Row(f"n = {n}: changes", *mean_and_error(moved), *changes, RERUN))
        ends = [r.last_change or 0.0 for r in done]
        rows.append(Row(f"n = {n}: last change", *mean_and_error(ends), *last, RERUN))
    setting = f"load {load}, alpha = {alpha}, {runs} runs of 12 mean service times from empty"
    title = "Near a whole number the threshold hunts, the more the fewer the pools"
    return Reproduction(
        "near", title, setting, tuple(rows), lambda: _draw_near(found, load, title, setting), seed
    )


def _draw_near(found: dict[int, Any], load: float, title: str, under: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.6))
    for place, (n, path) in enumerate(found.items()):
        axes = figure.add_axes((0.055 + place * 0.48, 0.13, 0.45, 0.64))
        axes.plot(path["times"], path["mean"], color=INK, linewidth=1.2, dashes=(5, 2),
                  label="tasks per pool")  # fmt: skip
        axes.step(path["times"], path["threshold"], where="post", color=LOOKS[0].light,
                  linewidth=1.6, label="threshold")  # fmt: skip
        axes.axhline(load, color=QUIET, linewidth=0.8, dashes=(2, 2))
        axes.set_title(f"{n} pools, one run", fontsize=10, loc="left", color=QUIET)
        axes.set_xlabel("mean service times")
        axes.set_ylim(0, 4.3)
        if place == 0:
            axes.set_ylabel("tasks")
            axes.legend(frameon=False, fontsize=9, loc="lower right")
        plain_axes(axes)
    titled(figure, title, under)
    return figure


# --- Shares --------------------------------------------------------------------------------------


def shares(runs: int = 60, seed: int = 1, told: Told = None) -> Reproduction:
    """With how many others a task shares its pool: n = 500, load 10.5, from the balanced state."""
    n, load = 500, 10.5
    start = [11] * (n // 2) + [10] * (n // 2)
    policies = ("threshold(level=10)", "jsq", "jsq-d(d=2)", "random")
    found, rows = {}, []
    for i, policy in enumerate(policies):
        done = records(
            _tables(n, load, 5.0, start, seed), policy, runs,
            part(told, i / 4, (i + 1) / 4), policy,
        )  # fmt: skip
        each = np.array([_company(r, n) for r in done])
        found[policy] = each.mean(axis=0)
        for level, value in SHARES.get(policy, {}).items():
            rows.append(
                Row(f"{policy}: share of tasks with {level} in all",
                    *mean_and_error(each[:, level]), value, SHARE_ERROR[level], AUTHORS)
            )  # fmt: skip
        if policy not in SHARES:
            crowded = each[:, 13:].sum(axis=1)
            rows.append(Row(f"{policy}: share of tasks with 13 or more in all",
                            *mean_and_error(crowded)))  # fmt: skip
    setting = f"{n} pools, load {load}, {runs} runs of 5 mean service times from balance"
    title = "Two bits a server keep tasks as evenly as full knowledge does"
    return Reproduction(
        "shares", title, setting, tuple(rows), lambda: _draw_shares(found, title, setting), seed
    )


def _company(record: Any, n: int) -> np.ndarray:
    """Return the share of tasks, over time, that stand at servers with x tasks, float64[40]."""
    area = np.zeros(41)
    for row in record.area:
        area[: min(len(row), 41)] += row[:41]
    at = area[:-1] - area[1:]
    tasks = np.arange(40) * at
    out: np.ndarray = tasks / tasks.sum()
    return out


def _draw_shares(found: dict[str, np.ndarray], title: str, under: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 5.2))
    for place, (policy, law) in enumerate(found.items()):
        axes = figure.add_axes((0.065 + (place % 2) * 0.48, 0.52 - (place // 2) * 0.41, 0.44, 0.30))
        look = LOOKS[USUAL[policy.partition("(")[0]]]
        axes.bar(np.arange(law.size), law, 0.85, color=look.light)
        axes.set_xlim(0, 24)
        axes.set_ylim(0, 0.62)
        axes.text(0.02, 0.9, policy, transform=axes.transAxes, fontweight="bold", fontsize=10)
        if place >= 2:
            axes.set_xlabel("tasks that share a pool, the task itself included")
        if place % 2 == 0:
            axes.set_ylabel("part of the tasks")
        plain_axes(axes)
    titled(figure, title, under)
    return figure


# --- A load that varies --------------------------------------------------------------------------


def _rate(t: np.ndarray) -> np.ndarray:
    """The arrival rate per pool of the authors' program."""
    return np.select(
        [t < 2, t < 15, t < 20, t < 30, t < 33, t <= 45],
        [
            1.2 * t,
            2.4 + 0.3 * np.sin(2 * np.pi * t),
            2.4 + 0.172 * (t - 15) ** 2,
            6.7 + 0 * t,
            6.7 - 3.7 / 9 * (t - 30) ** 2,
            3 + 0.3 * np.sin(2 * np.pi * (t - 3) / 10),
        ],
        0.0,
    )


def varying(runs: int = 20, seed: int = 1, told: Told = None) -> Reproduction:
    """A load that rises, rests and falls: n = 500, horizon 45, alpha = 10/11."""
    from ...theory import pools

    n, step = 500, 0.01
    middles = np.arange(0, 45, step) + step / 2
    tables = {
        "servers": {"count": n, "discipline": "pool"},
        "arrivals": {"law": "rates", "bin": step, "rates": (n * _rate(middles)).tolist()},
        "service": {"law": "exponential", "mean": 1.0},
        "run": {"duration": 45.0, "warm_up": 0.0, "start": "empty", "seed": seed},
    }
    policy = {"name": "learning-threshold", "alpha": 10 / 11, "level": 0, "rule": "program"}
    done = records(tables, policy, runs, told, "a load that varies")
    times = np.linspace(0, 45, 451)
    rate = pools.Curve(_rate, np.array([2.0, 15.0, 20.0, 30.0, 33.0]), 0.2)
    rho = pools.offered_load(rate, times)
    fluid = pools.describe(rate, n, alpha=10 / 11, level=0, times=times)
    rows = []
    for at in (10.0, 19.0, 28.0, 40.0):
        value = [float(np.interp(at, r.path["times"], r.path["mean"])) for r in done]
        truth = float(np.interp(at, times, rho))
        rows.append(Row(f"tasks per pool at {at:g}", *mean_and_error(value), truth, 0.0,
                        "offered load, exact"))  # fmt: skip
    for span in ((5.0, 15.0), (24.0, 30.0), (37.0, 45.0)):
        levels = [_time_mean(r.path["times"], r.path["threshold"], *span) for r in done]
        assert fluid.path.levels is not None
        truth = _time_mean(times, fluid.path.levels, *span)
        rows.append(Row(f"mean threshold, {span[0]:g} to {span[1]:g}", *mean_and_error(levels),
                        truth, 0.0, LIMIT, True))  # fmt: skip
    rows.append(Row("changes", *mean_and_error([int(r.messages[:, 6].sum()) for r in done]),
                    len(fluid.path.changes), 0.0, LIMIT, True))  # fmt: skip
    setting = f"{n} pools, alpha = 10/11, {runs} runs of 45 mean service times from empty"
    title = "The threshold follows a load that rises, rests and falls"
    return Reproduction(
        "varying", title, setting, tuple(rows),
        lambda: _draw_varying(done[0], fluid, times, rho, n, title, setting), seed,
    )  # fmt: skip


def _time_mean(times: np.ndarray, values: np.ndarray, first: float, last: float) -> float:
    inside = (times >= first) & (times <= last)
    return float(np.mean(np.asarray(values, float)[inside]))


def _draw_varying(
    record: Any, fluid: Any, times: np.ndarray, rho: np.ndarray, n: int, title: str, under: str
) -> Figure:
    from matplotlib.figure import Figure

    from ...theory.pools import distance

    figure = Figure(figsize=(10.5, 6.0))
    over = figure.add_axes((0.065, 0.42, 0.92, 0.41))
    below = figure.add_axes((0.065, 0.09, 0.92, 0.25), sharex=over)
    path = record.path
    over.plot(times, rho, color=INK, linewidth=1.4, dashes=(5, 2), label="offered load")
    over.step(path["times"], path["threshold"], where="post", color=LOOKS[0].light, linewidth=1.8,
              label="threshold")  # fmt: skip
    over.step(path["times"], path["most"], where="post", color=LOOKS[1].light, linewidth=1.2,
              linestyle=(0, (9, 3)), label="largest pool")  # fmt: skip
    over.set_ylabel("tasks")
    over.set_ylim(bottom=0)
    over.legend(frameon=False, fontsize=9, loc="upper left", ncols=3)
    ends, q = q_of(record, n)
    middle = (np.concatenate(([0.0], ends[:-1])) + ends) / 2
    load = np.maximum(np.interp(middle, times, rho), 1e-9)
    gap = [float(distance(row, lam)) for row, lam in zip(q, load, strict=True)]
    below.plot(times, fluid.imbalance, color=INK, linewidth=1.2, dashes=(5, 2),
               label="limit of many pools")  # fmt: skip
    below.plot(middle, gap, color=LOOKS[0].light, marker="o", markersize=3, linewidth=1.0,
               label=f"{n} pools, one run")  # fmt: skip
    below.set_ylabel("distance from\nthe balanced state")
    below.set_xlabel("mean service times")
    below.set_ylim(0, 1.35 * max(gap))
    below.legend(frameon=False, fontsize=9, loc="upper right", ncols=2)
    over.tick_params(labelbottom=False)
    over.set_xlim(0, 45)
    plain_axes(over)
    plain_axes(below)
    titled(figure, title, under)
    return figure


# --- Hysteresis ----------------------------------------------------------------------------------


def hysteresis(runs: int = 8, seed: int = 1, told: Told = None) -> Reproduction:
    """The threshold against the load as it rises from 2 to 7 and falls again, slowly."""
    from ...theory import pools

    n, alpha, low, high, half = 5000, 0.8, 2.0, 7.0, 400.0
    step = 0.5
    middles = np.arange(0, 2 * half, step) + step / 2
    load = low + (high - low) * (1 - np.abs(middles / half - 1))
    tables = {
        "servers": {"count": n, "discipline": "pool"},
        "arrivals": {"law": "rates", "bin": step, "rates": (n * load).tolist()},
        "service": {"law": "exponential", "mean": 1.0},
        "run": {"duration": 2 * half, "warm_up": 0.0, "start": "balanced", "seed": seed},
    }
    policy = {"name": "learning-threshold", "alpha": alpha, "level": 2}
    done = records(tables, policy, runs, told, "the load rises and falls")
    rows = []
    for level in (3, 4, 5, 6):
        up, down = zip(*(_crossings(r.path, level, half, low, high) for r in done), strict=True)
        rows.append(Row(f"load at which the threshold rises to {level}", *mean_and_error(up),
                        float(level), 0.0, LIMIT + ": the level", True))  # fmt: skip
        rows.append(
            Row(f"load at which it falls from {level}", *mean_and_error(down),
                pools.drop_load(level, alpha), 0.0, LIMIT + ": theta = alpha", True)
        )  # fmt: skip
    setting = (
        f"{n} pools, alpha = {alpha}, load 2 to 7 to 2 in {2 * half:g} service times, {runs} runs"
    )
    title = "A threshold that learns falls later than it rises"
    return Reproduction(
        "hysteresis", title, setting, tuple(rows),
        lambda: _draw_hysteresis(done[0].path, alpha, half, low, high, title, setting), seed,
    )  # fmt: skip


def _load_at(times: np.ndarray, half: float, low: float, high: float) -> np.ndarray:
    """The offered load of the triangle, exponential service: it lags by one service time."""
    slope = (high - low) / half
    shape = low + (high - low) * (1 - np.abs(times / half - 1))
    lag = np.where(times < half, -slope * (1 - np.exp(-times)),
                   slope * (1 - 2 * np.exp(-np.maximum(times - half, 0.0))))  # fmt: skip
    out: np.ndarray = shape + lag
    return out


def _crossings(
    path: dict[str, np.ndarray], level: int, half: float, low: float, high: float
) -> tuple[float, float]:
    """Return the offered load when the threshold first reaches a level, and last leaves it."""
    times, threshold = path["times"], path["threshold"]
    there = np.flatnonzero(threshold >= level)
    load = _load_at(times, half, low, high)
    return float(load[there[0]]), float(load[min(there[-1] + 1, times.size - 1)])


def _draw_hysteresis(
    path: dict[str, np.ndarray], alpha: float, half: float, low: float, high: float, title: str,
    under: str,
) -> Figure:  # fmt: skip
    from matplotlib.figure import Figure

    from ...theory import pools

    figure = Figure(figsize=(8.6, 5.2))
    axes = figure.add_axes((0.08, 0.11, 0.90, 0.72))
    times, threshold = path["times"], path["threshold"]
    load = _load_at(times, half, low, high)
    up = times <= half
    axes.step(load[up], threshold[up], where="post", color=LOOKS[0].light, linewidth=2,
              label="load rising")  # fmt: skip
    axes.step(load[~up], threshold[~up], where="post", color=LOOKS[1].light, linewidth=2,
              linestyle=(0, (9, 3)), label="load falling")  # fmt: skip
    for level in range(3, 7):
        for at, look, marker in ((float(level), LOOKS[0], "^"),
                                 (pools.drop_load(level, alpha), LOOKS[1], "v")):  # fmt: skip
            axes.plot([at], [level - 0.5], marker, color=look.light, markersize=9,
                      markeredgecolor="white")  # fmt: skip
    axes.plot([low, high], [low, high], color=QUIET, linewidth=1, dashes=(2, 2))
    axes.text(high, high - 0.15, "threshold = load", fontsize=8.5, color=QUIET, ha="right",
              va="top")  # fmt: skip
    axes.set_xlabel("offered load, tasks per pool")
    axes.set_ylabel("threshold")
    axes.legend(frameon=False, loc="upper left", title="triangles: limit of many pools",
                title_fontsize=9)  # fmt: skip
    plain_axes(axes, "both")
    titled(figure, title, under)
    return figure


# --- What the step buys --------------------------------------------------------------------------


def step(runs: int = 20, seed: int = 1, told: Told = None) -> Reproduction:
    """Steps 1 to 4 under a load that goes up and down: imbalance against changes."""
    n, horizon, width = 500, 120.0, 0.05
    middles = np.arange(0, horizon, width) + width / 2
    load = 8.0 + 2.5 * np.sin(2 * np.pi * middles / 30)
    tables = {
        "servers": {"count": n, "discipline": "pool"},
        "arrivals": {"law": "rates", "bin": width, "rates": (n * load).tolist()},
        "service": {"law": "exponential", "mean": 1.0},
        "run": {"duration": horizon, "warm_up": 20.0, "start": "balanced", "seed": seed},
    }
    found, rows = [], []
    for i, size in enumerate((1, 2, 3, 4)):
        alpha = 12 / (12 + size)
        policy = {
            "name": "learning-threshold", "alpha": alpha, "step": size, "level": 8 // size * size,
        }  # fmt: skip
        done = records(tables, policy, runs, part(told, i / 4, (i + 1) / 4), f"step {size}")
        seconds = horizon - 20.0
        changes = [float(r.messages[1:, 6].sum()) / seconds for r in done]
        uneven = [float(r.sums[r.row_of >= 1, 2].sum()) / n / seconds for r in done]
        found.append((size, mean_and_error(changes), mean_and_error(uneven)))
        rows.append(Row(f"step {size}: changes per service time", *found[-1][1]))
        rows.append(Row(f"step {size}: imbalance, tasks per pool out of place", *found[-1][2]))
    setting = f"{n} pools, load 8 +- 2.5 with a period of 30 service times, {runs} runs"
    title = "A larger step moves the threshold less often and balances less well"
    return Reproduction(
        "step", title, setting, tuple(rows), lambda: _draw_step(found, title, setting), seed
    )


def _draw_step(found: list[Any], title: str, under: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0))
    axes = figure.add_axes((0.10, 0.12, 0.87, 0.71))
    x = [changes[0] for _, changes, _ in found]
    y = [uneven[0] for _, _, uneven in found]
    axes.plot(x, y, color=QUIET, linewidth=1, zorder=1)
    axes.errorbar(
        x, y, xerr=[1.96 * c[1] for _, c, _ in found], yerr=[1.96 * u[1] for _, _, u in found],
        fmt="o", color=LOOKS[0].light, markersize=7, capsize=3, zorder=2,
    )  # fmt: skip
    for size, changes, uneven in found:
        axes.annotate(f"step {size}", (changes[0], uneven[0]), (9, 5), textcoords="offset points")
    axes.set_xlabel("changes of the threshold per mean service time")
    axes.set_ylabel("imbalance, tasks per pool out of place")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    plain_axes(axes, "both")
    titled(figure, title, under)
    return figure


FIGURES = {
    "settling": settling,
    "near": near,
    "shares": shares,
    "varying": varying,
    "hysteresis": hysteresis,
    "step": step,
}
