"""What late messages do to jiq and to the threshold policy: the figure of docs/kernel-events.md.

    python docs/pictures/message_delay.py

runs it all, about a minute, prints the table of the page and writes message-delay.svg beside it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import Scenario
from equipoise.policies import Policy, jiq, resolve
from equipoise.policies.levels import set_band
from equipoise.sim.run import TIME, UNEVEN, WAITED, WAITS, replicate

DELAYS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)  # mean service times
Curve = list[tuple[float, float]]  # the mean and its standard error, at each delay


def believe(state, server, bound):
    """Hear of a jiq that takes every report for news, whatever it sent there meanwhile."""
    set_band(state.bands, server, 0)


TRUSTING = Policy(
    "trusting-jiq", jiq.init, jiq.choose, believe, tell_finish=jiq.tell_finish,
    tell_state=jiq.tell_state,
)  # fmt: skip


def queues(delay: float, tasks: int) -> Scenario:
    """One hundred queues at load 0.8."""
    return Scenario.from_dict(
        {
            "servers": {"count": 100, "discipline": "fcfs"},
            "arrivals": {"law": "poisson", "load": 0.8},
            "service": {"law": "exponential"},
            "messages": {"delay": delay},
            "run": {"tasks": tasks, "warm_up": 50.0},
        }
    )


def pools(delay: float, duration: float) -> Scenario:
    """Five hundred pools at load 2.5, near balance at the start."""
    return Scenario.from_dict(
        {
            "servers": {"count": 500, "discipline": "pool"},
            "arrivals": {"law": "poisson", "load": 2.5},
            "service": {"law": "exponential"},
            "messages": {"delay": delay},
            "run": {"duration": duration, "warm_up": 20.0, "start": "balanced"},
        }
    )


def mean_of(scenario: Scenario, policy: Any, above: int, below: int, scale: float, runs: int):
    """Return the mean of a ratio of sums over the runs, and its standard error."""
    found = []
    for replication in range(runs):
        record = replicate(scenario, resolve(policy), replication, kernel="events")
        sums = record.sums[record.row_of >= 1].sum(axis=0)
        found.append(sums[above] / sums[below] / scale)
    return float(np.mean(found)), float(np.std(found, ddof=1)) / math.sqrt(runs)


def measure(tasks: int = 200_000, duration: float = 120.0, runs: int = 20) -> dict[str, Curve]:
    """Return the mean wait of jiq in both forms and the imbalance of threshold(level=2)."""
    found: dict[str, Curve] = {"jiq": [], "trusting jiq": [], "threshold": []}
    for delay in DELAYS:
        one, other = queues(delay, tasks), pools(delay, duration)
        found["jiq"].append(mean_of(one, "jiq", WAITS, WAITED, 1.0, runs))
        found["trusting jiq"].append(mean_of(one, TRUSTING, WAITS, WAITED, 1.0, runs))
        level = mean_of(other, "threshold(level=2)", UNEVEN, TIME, 500.0, runs)
        found["threshold"].append(level)
    return found


def draw(found: dict[str, Curve]) -> Any:
    """Return the figure: both against the delay, with 95 % intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    at = range(len(DELAYS))
    for axes, names, title in (
        (left, ("jiq", "trusting jiq"), "Mean wait, 100 queues, load 0.8"),
        (right, ("threshold",), "Imbalance, 500 pools, load 2.5, level 2"),
    ):
        for name in names:
            means, errors = zip(*found[name], strict=True)
            axes.errorbar(at, means, [1.96 * e for e in errors], marker="o", ms=3, label=name)
        axes.set_title(title, fontsize=9)
        axes.set_xticks(at, [f"{delay:g}" for delay in DELAYS])
        axes.set_xlabel("delay of messages, mean service times")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=8)
    return figure


def table(found: dict[str, Curve]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| delay | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for i, delay in enumerate(DELAYS):
        cells = [f"{found[name][i][0]:.4f} +- {1.96 * found[name][i][1]:.4f}" for name in found]
        lines.append(f"| {delay:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    measured = measure()
    print(table(measured))
    draw(measured).savefig(Path(__file__).with_name("message-delay.svg"), metadata={"Date": None})
