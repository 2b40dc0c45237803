"""Small comparisons made by hand, for everything that shows or stores results."""

from dataclasses import replace

import numpy as np
import pytest

from equipoise.report.results import Comparison, Difference, Path, PolicyResult
from equipoise.scenario import Scenario
from equipoise.stats import paired, t_interval

RUNS = 6
GRID = np.linspace(0.0, 3600.0, 500)


def make_scenario(discipline, name="an hour"):
    load = 7.3 if discipline == "pool" else 0.9
    return Scenario.from_dict(
        {
            "name": name,
            "servers": {"count": 20, "discipline": discipline},
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential", "mean": 1.0},
            "run": {"duration": 3600.0, "replications": RUNS, "seed": 1},
        }
    )


def make_policy(discipline, name, label, level, messages, bits, noise=0.01):
    """A policy whose figures grow with `level`; the runs share most of their randomness."""
    common = np.random.default_rng(1).normal(size=RUNS)
    own = np.random.default_rng(len(label)).normal(size=RUNS)
    runs = {
        "mean_tasks": 7.3 + 0.01 * common,
        "max_tasks": np.full(RUNS, np.ceil(9 + 3 * level)),
        "messages_per_task": np.full(RUNS, messages),
    }
    main = level * (1 + 0.1 * common + noise * own)
    if discipline == "pool":
        runs |= {"imbalance": main, "mean_neighbours": 6 + main, "p99_neighbours": 9 + 2 * main}
    else:
        runs |= {"mean_response": 1 + main, "mean_wait": main, "p99_response": 4 + 5 * main}
    x = np.arange(1, 25)
    share = x * np.exp(-((x - 7.3) ** 2) / (2 * (1 + 4 * level)))
    edges = np.geomspace(1e-3, 1e3, 121)
    tail = np.exp(-edges / (1 + level))
    counts = 1e5 * (tail[:-1] - tail[1:])
    swing = 7.3 + np.sin(GRID / 300)
    learnt = np.round(swing) if "learning" in name else np.full(GRID.size, 8.0)
    has_threshold = "threshold" in name
    return PolicyResult(
        name=name,
        label=label,
        params={},
        memory_bits=bits,
        cost="a promise",
        source="a book",
        metrics={k: t_interval(v) for k, v in runs.items()},
        replications=runs,
        messages={"join": messages / 2, "leave": messages / 2},
        tasks={"arrived": 1000, "finished": 990, "present": 10, "lost": 0},
        occupancy=np.array([1.0, 0.75, 0.25, 0.0, 0.0]),
        share={int(k): float(v) for k, v in zip(x, share / share.sum(), strict=True)},
        threshold_time={7: 0.25, 8: 0.75} if "learning" in name else {},
        distribution={} if discipline == "pool" else {"response": (edges, counts)},
        path=Path(
            GRID,
            swing,
            np.floor(swing - level),
            np.ceil(swing + level),
            learnt if has_threshold else None,
        ),
    )


def make_comparison(discipline, policies=None, name="an hour", **changes):
    rank_by = "imbalance" if discipline == "pool" else "mean_response"
    if policies is None:
        policies = [
            make_policy(discipline, *row)
            for row in (
                ("jsq", "jsq", 0.300, 1.0, 32),
                ("learning-threshold", "learning-threshold(alpha=0.91)", 0.3002, 0.95, 2),
                ("threshold", "threshold(level=8)", 0.50, 0.9, 2),
                ("jsq-d", "jsq-d(d=2)", 0.55, 4.0, 0),
                ("random", "random", 2.0, 0.0, 0),
            )
        ]
    run = [p for p in policies if p.unstable is None]
    differences = []
    for i, a in enumerate(run):
        for b in run[i + 1 :]:
            e = paired(a.replications[rank_by], b.replications[rank_by])
            differences.append(Difference(a.label, b.label, rank_by, e.value, e.error))
    whole = Comparison(
        scenario=make_scenario(discipline, name),
        seed=1,
        version="0.1.0",
        versions={"python": "3.11.2", "numpy": "2.4.6"},
        kernel="events",
        confidence=0.95,
        rank_by=rank_by,
        policies=tuple(policies),
        differences=tuple(differences),
        replications=RUNS,
        warm_up=0.0,
        given=None,
        events=2_000_000,
        seconds=1.0,
        command="equipoise compare hour.toml --seed 1",
        offered=(GRID, 7.3 + np.sin(GRID / 300)),
    )
    return replace(whole, **changes)


@pytest.fixture
def pools():
    return make_comparison("pool")


@pytest.fixture
def queues():
    return make_comparison("fcfs")


@pytest.fixture
def make():
    """The makers, for tests that want something of their own."""

    class Makers:
        comparison = staticmethod(make_comparison)
        policy = staticmethod(make_policy)
        scenario = staticmethod(make_scenario)

    return Makers
