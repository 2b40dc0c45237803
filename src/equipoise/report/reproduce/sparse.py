"""What feedback is worth: mean wait against messages per task, and what changes it.

The schemes of van der Boor, Borst, van Leeuwaarden (2019), Hyper-Scalable JSQ with Sparse Feedback,
POMACS 3(1), sections 2, 4 and 5, against the baselines they are compared with there, and against
`stale-jsq`: the same news without counting one's own sends. Service is exponential of mean 1 where
nothing else is said. Lines are limits of many servers, points are simulated with 95 % bars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...scenario import Scenario
from ..palette import LOOKS
from ..pictures import INK, QUIET
from .base import Reproduction, Row, Told, mean_and_error, plain_axes, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT = "limit of many servers"
MESSAGES = (0.25, 0.5, 1.0, 1.5)  # per task, at which the schemes are simulated
SCHEMES = {"sujsq-det": 0, "aujsq-det": 1, "aujsq-exp": 2}  # place in LOOKS
STALE = 6


def _waits(
    load: float,
    n: int,
    policy: str,
    tasks: int,
    runs: int,
    seed: int,
    service: Any = None,
    delay: float = 0.0,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return mean wait and messages per task, each (mean, standard error)."""
    from ..simulate import simulate

    scenario = Scenario.from_dict(
        {
            "servers": {"count": n, "discipline": "fcfs"},
            "arrivals": {"law": "poisson", "load": load},
            "service": service or {"law": "exponential", "mean": 1.0},
            "messages": {"delay": delay},
            "run": {"tasks": tasks, "replications": runs, "start": "balanced", "seed": seed},
        }
    )
    found = simulate(scenario, policy).policy
    return (
        mean_and_error(found.replications["mean_wait"]),
        mean_and_error(found.replications["messages_per_task"]),
    )


def tradeoff(runs: int = 6, seed: int = 1, told: Told = None) -> Reproduction:
    """Mean wait against messages per task, all schemes and baselines: n = 1000, load .7 and .9."""
    from ...theory.sparse import baselines, equilibrium

    n = 1000
    loads = {0.7: 250_000, 0.9: 750_000}  # tasks of a run: the busier the longer it remembers
    rows: list[Row] = []
    drawn: dict[float, dict[str, Any]] = {}
    jobs = [(load, name, m) for load in loads for name in (*SCHEMES, "stale-jsq") for m in MESSAGES]
    others = ("jsq-d(d=2)", "jiq", "jsq", "sparsified-jiq(p=0.5)")
    jobs += [(load, name, None) for load in loads for name in others]  # type: ignore[misc]
    for i, (load, name, messages) in enumerate(jobs):
        policy = name if messages is None else f"{name}(delta={messages * load:.6g})"
        wait, cost = _waits(load, n, policy, loads[load], runs, seed)
        drawn.setdefault(load, {}).setdefault(name, []).append((cost[0], *wait))
        known, source, limit = _theory(load, name, messages, equilibrium, baselines)
        rows.append(Row(f"load {load}: {policy}", *wait, known, 0.0, source, limit))
        if told is not None:
            told((i + 1) / len(jobs), policy)
    for load in loads:
        for name, exact in (("random", baselines.random(load)),
                            ("round-robin", baselines.round_robin(load, n))):  # fmt: skip
            drawn[load][name] = [(0.0, exact.mean_wait, 0.0)]
            rows.append(Row(f"load {load}: {name}, exact", exact.mean_wait, 0.0))
    one = {name: next(p for p in drawn[0.7][name] if abs(p[0] - 1) < 0.05) for name in SCHEMES}
    two = drawn[0.7]["jsq-d(d=2)"][0]
    title = (
        f"At load .7 sujsq-det waits {one['sujsq-det'][1]:.3f} with one message per task, jsq-d "
        f"{two[1]:.3f} with four"
    )
    setting = (
        f"{n} queues, {runs} runs of {loads[0.7]:,} (load .7) and {loads[0.9]:,} tasks each; "
        "waits in mean service times"
    )
    lines = {load: _lines(load) for load in loads}
    return Reproduction(
        "sparse-tradeoff", title, setting, tuple(rows),
        lambda: _draw_tradeoff(drawn, lines, title, setting), seed,
    )  # fmt: skip


def _theory(
    load: float, name: str, messages: float | None, equilibrium: Any, baselines: Any
) -> tuple[float, str, bool]:
    """Return (mean wait, where it is from, whether it is a limit) of a policy; nan if unknown."""
    if name in SCHEMES:
        assert messages is not None
        return equilibrium(name, load, messages * load).mean_wait, LIMIT, True
    if name.startswith("jsq-d"):
        return baselines.jsq_d(load, 2).mean_wait, LIMIT, True
    if name.startswith("sparsified"):
        return baselines.sparsified_jiq(load, 0.5).mean_wait, LIMIT, True
    if name in ("jsq", "jiq"):
        return 0.0, LIMIT, True
    return float("nan"), "", False


def _lines(load: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    from ...theory.sparse import equilibrium

    messages = np.array([0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 1.8])
    return {
        name: (messages, np.array([equilibrium(name, load, m * load).mean_wait for m in messages]))
        for name in SCHEMES
    }


def _draw_tradeoff(
    drawn: dict[float, dict[str, Any]], lines: dict[float, Any], title: str, under: str
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 5.4))
    for place, (load, found) in enumerate(drawn.items()):
        axes = figure.add_axes((0.065 + place * 0.485, 0.115, 0.44, 0.70))
        for name, (messages, waits) in lines[load].items():
            look = LOOKS[SCHEMES[name]]
            dash = tuple(map(float, look.dash.split())) if look.dash else (None, None)
            axes.plot(messages, waits, color=look.light, linewidth=1.7, dashes=dash)
        for name in (*SCHEMES, "stale-jsq"):
            look = LOOKS[SCHEMES.get(name, STALE)]
            points = np.array(found[name])
            axes.errorbar(
                points[:, 0], points[:, 1], 1.96 * points[:, 2], fmt=look.marker,
                color=look.light, markersize=6, capsize=3, label=name, linestyle="none",
            )  # fmt: skip
        _baselines(axes, found)
        axes.set_yscale("log")
        axes.set_xscale("log")
        axes.set_xticks([0.1, 0.25, 0.5, 1, 2, 4], ["0.1", "0.25", "0.5", "1", "2", "4"])
        axes.minorticks_off()
        axes.set_xlim(0.08, 6.5)
        axes.set_ylim(8e-3 if load < 0.8 else 2e-2, None)
        axes.set_title(f"load {load}", fontsize=10.5, loc="left", color=QUIET)
        axes.set_xlabel("messages per task")
        if place == 0:
            axes.set_ylabel("mean wait, mean service times")
            axes.legend(frameon=False, fontsize=9, loc="lower left")
        plain_axes(axes)
    titled(figure, title, under)
    return figure


def _baselines(axes: Any, found: dict[str, Any]) -> None:
    """Those that cost nothing are lines across; the others points with their names."""
    for name in ("random", "round-robin"):
        wait = found[name][0][1]
        axes.axhline(wait, color=QUIET, linewidth=1, dashes=(2, 2))
        axes.text(6.2, wait, f"{name}, none", fontsize=8.5, color=QUIET, ha="right", va="bottom")
    for name in ("jsq-d(d=2)", "jiq", "sparsified-jiq(p=0.5)"):
        cost, wait, error = found[name][0]
        axes.errorbar([cost], [wait], [1.96 * error], fmt="o", color=INK, markersize=5, capsize=3)
        axes.annotate(
            name, (cost, wait), (0, 7), textcoords="offset points", fontsize=8.5, ha="center"
        )


def vanishing(runs: int = 8, seed: int = 1, told: Told = None) -> Reproduction:
    """From the delta on at which the limit has no wait, it falls like n^-1/2: load .5 and .7."""
    from ...theory.sparse import no_waiting_delta

    sizes = (100, 1000, 10_000)
    cases = [(load, name) for load in (0.5, 0.7) for name in SCHEMES]
    rows, drawn = [], {}
    for i, (load, name) in enumerate(cases):
        delta = no_waiting_delta(name, load)
        points = []
        for j, n in enumerate(sizes):
            found, _ = _waits(load, n, f"{name}(delta={delta!r})", max(200_000, 60 * n), runs, seed)
            points.append((n, *found))
            if told is not None:
                told((i + (j + 1) / 3) / len(cases), f"{name}, n = {n}")
        drawn[load, name] = np.array(points)
        for n, wait, error in points:
            rows.append(Row(f"load {load}: {name}(delta={delta:.5g}), n = {n}", wait, error,
                            0.0, 0.0, LIMIT, True))  # fmt: skip
        sizes_log, waits_log = np.log(drawn[load, name][:, :2]).T
        slope = float(np.polyfit(sizes_log, waits_log, 1)[0])
        rows.append(Row(f"load {load}: {name}, power of n", slope, float("nan"), -0.5, 0.0,
                        "order of the wait", True))  # fmt: skip
    title = "At its threshold a scheme waits like one over the root of n"
    setting = f"{runs} runs each, tasks 60 n or more; waits in mean service times"
    return Reproduction(
        "sparse-vanishing", title, setting, tuple(rows),
        lambda: _draw_vanishing(drawn, title, setting), seed,
    )  # fmt: skip


def _draw_vanishing(drawn: dict[Any, np.ndarray], title: str, under: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.8))
    for place, load in enumerate((0.5, 0.7)):
        axes = figure.add_axes((0.075 + place * 0.48, 0.12, 0.43, 0.68))
        for name, slot in SCHEMES.items():
            points, look = drawn[load, name], LOOKS[slot]
            axes.errorbar(points[:, 0], points[:, 1], 1.96 * points[:, 2], fmt=look.marker,
                          color=look.light, capsize=3, markersize=6, label=name)  # fmt: skip
        first = max(drawn[load, name][0, 1] for name in SCHEMES)
        sizes = np.array([100.0, 10_000.0])
        axes.plot(sizes, 1.3 * first * (sizes / 100) ** -0.5, color=QUIET, dashes=(4, 2),
                  linewidth=1, label="slope -1/2")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(f"load {load}", fontsize=10.5, loc="left", color=QUIET)
        axes.set_xlabel("servers")
        if place == 0:
            axes.set_ylabel("mean wait, mean service times")
            axes.legend(frameon=False, fontsize=9, loc="lower left")
        plain_axes(axes)
    titled(figure, title, under)
    return figure


def tangent(runs: int = 8, seed: int = 1, told: Told = None) -> Reproduction:
    """Where aujsq-exp's limit has a vertical tangent in the load, finite fleets are far from it."""
    from ...theory.sparse import equilibrium

    delta, sizes = 0.35, (1000, 10_000)
    loads = np.unique(np.concatenate([np.linspace(0.4, 0.85, 181),
                                      1 - (1 + delta) ** -np.arange(2.0, 7.0)]))  # fmt: skip
    line = np.array([equilibrium("aujsq-exp", float(load), delta).mean_tasks for load in loads])
    at = (0.5, 0.6, 0.68, 0.695, 0.70, 0.71, 0.74, 0.8)
    rows: list[Row] = []
    points: dict[int, list[tuple[float, ...]]] = {n: [] for n in sizes}
    for i, load in enumerate(at):
        limit = equilibrium("aujsq-exp", load, delta).mean_wait
        for n in sizes:
            wait, _ = _waits(load, n, f"aujsq-exp(delta={delta})", 60 * n + 200_000, runs, seed)
            points[n].append((load, load * (1 + wait[0]), load * wait[1]))
            rows.append(Row(f"load {load}, n = {n}: mean wait", *wait, limit, 0.0, LIMIT, True))
        if told is not None:
            told((i + 1) / len(at), f"load {load}")
    title = "Near a vertical tangent of the limit, ten thousand servers are not many"
    setting = f"aujsq-exp with delta = {delta}, {runs} runs each"
    return Reproduction(
        "sparse-tangent", title, setting, tuple(rows),
        lambda: _draw_tangent(loads, line, points, delta, title, setting), seed,
    )  # fmt: skip


def _draw_tangent(
    loads: np.ndarray, line: np.ndarray, points: dict[int, Any], delta: float, title: str,
    under: str,
) -> Figure:  # fmt: skip
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 5.0))
    axes = figure.add_axes((0.085, 0.12, 0.89, 0.70))
    axes.plot(loads, line, color=INK, linewidth=1.6, label="limit of many servers")
    for m in range(2, 7):
        special = 1 - (1 + delta) ** -m
        if loads[0] < special < loads[-1]:
            axes.axvline(special, color=QUIET, linewidth=0.8, dashes=(2, 2))
    for (n, found), look in zip(points.items(), (LOOKS[1], LOOKS[0]), strict=True):
        xs = np.array(found)
        axes.errorbar(xs[:, 0], xs[:, 1], 1.96 * xs[:, 2], fmt=look.marker, color=look.light,
                      markersize=6, capsize=3, label=f"{n} servers")  # fmt: skip
    axes.set_xlabel("load (dashed: where the tangent is vertical)")
    axes.set_ylabel("tasks per server")
    axes.legend(frameon=False, fontsize=9)
    plain_axes(axes)
    titled(figure, title, under)
    return figure


def service(runs: int = 8, seed: int = 1, told: Told = None) -> Reproduction:
    """What other service laws do to the ranking: load .7, one message per task, n = 500."""
    n, load, tasks = 500, 0.7, 200_000
    laws = {
        "deterministic": {"law": "deterministic", "mean": 1.0},
        "exponential": {"law": "exponential", "mean": 1.0},
        "hyperexponential, scv 4": {"law": "hyperexponential", "mean": 1.0, "scv": 4.0},
        "lognormal, scv 10": {"law": "lognormal", "mean": 1.0, "scv": 10.0},
    }
    policies = ("sujsq-det(delta=0.7)", "aujsq-det(delta=0.7)", "aujsq-exp(delta=0.7)",
                "jsq-d(d=2)", "round-robin", "jiq")  # fmt: skip
    rows, drawn = [], {}
    for i, (law, tables) in enumerate(laws.items()):
        for j, policy in enumerate(policies):
            wait, _ = _waits(load, n, policy, tasks, runs, seed, tables)
            drawn[law, policy] = wait
            rows.append(Row(f"{law}: {policy}", *wait))
            if told is not None:
                told((i + (j + 1) / len(policies)) / len(laws), law)
    title = "Sparse news stays ahead of two choices at a quarter of the messages, whatever the law"
    ahead = all(drawn[law, policies[0]][0] < drawn[law, policies[3]][0] for law in laws)
    if not ahead:
        title = "What other service laws do to the ranking"
    setting = f"{n} queues, load {load}, {runs} runs of {tasks:,} tasks each"
    return Reproduction(
        "sparse-service", title, setting, tuple(rows),
        lambda: _draw_service(drawn, list(laws), policies, title, setting), seed,
    )  # fmt: skip


def _draw_service(
    drawn: dict[Any, Any], laws: list[str], policies: tuple[str, ...], title: str, under: str
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 5.0))
    axes = figure.add_axes((0.07, 0.12, 0.915, 0.70))
    width = 0.8 / len(policies)
    for j, policy in enumerate(policies):
        look = LOOKS[j]
        at = np.arange(len(laws)) + (j - (len(policies) - 1) / 2) * width
        heights = [drawn[law, policy][0] for law in laws]
        errors = [1.96 * drawn[law, policy][1] for law in laws]
        axes.bar(at, heights, 0.9 * width, yerr=errors, color=look.light, label=policy,
                 error_kw={"ecolor": INK, "capsize": 2, "linewidth": 1})  # fmt: skip
    axes.set_xticks(range(len(laws)), laws)
    axes.set_ylabel("mean wait, mean service times")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    plain_axes(axes)
    titled(figure, title, under)
    return figure


def delay(runs: int = 8, seed: int = 1, told: Told = None) -> Reproduction:
    """What late messages do to the ranking: load .7, at most one message per task, n = 500."""
    n, load, tasks = 500, 0.7, 100_000
    delays = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
    policies = ("jiq", "jsq", "sujsq-det(delta=0.7)", "aujsq-exp(delta=0.7)",
                "stale-jsq(delta=0.7)", "round-robin")  # fmt: skip
    rows: list[Row] = []
    drawn: dict[str, np.ndarray] = {}
    for i, policy in enumerate(policies):
        points = []
        for j, late in enumerate(delays):
            wait, _ = _waits(load, n, policy, tasks, runs, seed, delay=late)
            points.append(wait)
            rows.append(Row(f"messages take {late:g}: {policy}", *wait))
            if told is not None:
                told((i + (j + 1) / len(delays)) / len(policies), policy)
        drawn[policy] = np.array(points)
    title = "Late messages put jiq behind round-robin, but not lengths and own sends"
    last = {name: values[-1, 0] for name, values in drawn.items()}
    if not max(last["jsq"], last[policies[2]]) < last["round-robin"] < last["jiq"]:
        title = "What late messages do to the ranking"
    setting = f"{n} queues, load {load}, {runs} runs of {tasks:,} tasks each"
    return Reproduction(
        "sparse-delay", title, setting, tuple(rows),
        lambda: _draw_delay(drawn, delays, title, setting), seed,
    )  # fmt: skip


def _draw_delay(
    drawn: dict[str, np.ndarray], delays: tuple[float, ...], title: str, under: str
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 5.0))
    axes = figure.add_axes((0.085, 0.12, 0.89, 0.70))
    at = np.arange(len(delays))
    for j, (policy, values) in enumerate(drawn.items()):
        look = LOOKS[j]
        axes.errorbar(at, values[:, 0], 1.96 * values[:, 1], fmt=look.marker, linestyle="-",
                      color=look.light, markersize=6, capsize=3, label=policy)  # fmt: skip
    axes.set_xticks(at, [f"{late:g}" for late in delays])
    axes.set_xlabel("time that a message takes, mean service times (steps, not to scale)")
    axes.set_ylabel("mean wait, mean service times")
    axes.legend(frameon=False, fontsize=9)
    plain_axes(axes)
    titled(figure, title, under)
    return figure


FIGURES = {
    "sparse-tradeoff": tradeoff,
    "sparse-vanishing": vanishing,
    "sparse-tangent": tangent,
    "sparse-service": service,
    "sparse-delay": delay,
}
