"""Many short runs of the package, and what a test asks of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import chi2

from equipoise.policies import PolicySpec, resolve
from equipoise.policies.steps import ANNOUNCEMENTS, CHANGES, MESSAGES
from equipoise.report.measure import measure, warm_up_rows
from equipoise.report.results import PolicyResult
from equipoise.report.run import run_all
from equipoise.scenario import Scenario, stream
from equipoise.sim import run as sim_run
from equipoise.sim.run import Record, pick_kernel

LEVEL = 6.3e-5  # a test of law refuses as often as four standard errors do

# Every policy, on few servers.
POLICIES = [
    "random",
    "round-robin",
    "jsq",
    "jsq-d",
    "jiq",
    "jbt",
    "threshold(level=1)",
    "learning-threshold(alpha=0.6)",
]


def assert_mean(values, truth: float, bias: float = 0.0) -> None:
    """The mean of independent values is the truth, within four standard errors and a bias."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / math.sqrt(values.size)
    assert abs(values.mean() - truth) <= 4 * error + bias, (
        f"{values.mean():.6g} +- {error:.2g}, but {truth:.6g}"
    )


def assert_same(values, figure: float, error: float) -> None:
    """The mean of independent values is that of a figure with a standard error of its own."""
    values = np.asarray(values, dtype=float)
    both = math.hypot(error, values.std(ddof=1) / math.sqrt(values.size))
    assert abs(values.mean() - figure) <= 4 * both, (
        f"{values.mean():.6g}, but {figure:.6g}; together +- {both:.2g}"
    )


def assert_law(counts, law) -> None:
    """Independent whole numbers follow a law of scipy's: chi-square over cells of 8 or more."""
    counts = np.asarray(counts)
    first, last = int(law.ppf(1e-9)), int(law.isf(1e-9))
    expected = counts.size * law.pmf(np.arange(first, last + 1))
    seen = np.bincount(np.clip(counts, first, last) - first, minlength=expected.size)
    cells = np.minimum((expected.cumsum() // 8).astype(int), int(expected.sum() // 8) - 1)
    expected, seen = np.bincount(cells, expected), np.bincount(cells, seen)
    kept = expected > 0  # a value of 16 or more leaves a number out
    expected, seen = expected[kept], seen[kept]
    distance = float(((seen - expected) ** 2 / expected).sum())
    assert chi2.sf(distance, expected.size - 1) > LEVEL, (
        f"chi-square {distance:.1f} with {expected.size - 1} degrees of freedom, of {counts.size}"
    )


@contextmanager
def cut(rows: int, stretches: int, chunk: int = stream.CHUNK) -> Iterator[None]:
    """Cut runs into so many rows of so many stretches, and draw so many tasks at a time.

    A short run has no use for 500 stretches and 65 536 tasks: it takes 1 ms without them, not 20.
    """
    before = sim_run.ROWS, sim_run.STRETCHES, stream.CHUNK
    sim_run.ROWS, sim_run.STRETCHES, stream.CHUNK = rows, stretches, chunk
    try:
        yield
    finally:
        sim_run.ROWS, sim_run.STRETCHES, stream.CHUNK = before


@dataclass
class Runs:
    """The replications of one policy, the warm-up left out. Arrays are float64[R]."""

    scenario: Scenario
    spec: PolicySpec
    records: list[Record]
    first: int  # row that is measured

    @cached_property
    def result(self) -> PolicyResult:
        """What the package makes of them."""
        return measure(self.scenario, self.spec, self.records, self.first, 0.95)

    def __getitem__(self, metric: str) -> np.ndarray:
        return self.result.replications[metric]

    def messages(self, kind: str) -> np.ndarray:
        """Messages of a kind per task."""
        arrivals = self._sums(sim_run.ARRIVALS)
        i = MESSAGES.index(kind)
        return np.array([r.messages[self.first :, i].sum() for r in self.records]) / arrivals

    def _sums(self, column: int) -> np.ndarray:
        return np.array([r.sums[r.row_of >= self.first, column].sum() for r in self.records])

    @property
    def time(self) -> np.ndarray:
        """Seconds."""
        return self._sums(sim_run.TIME)

    def at_least(self, tasks: int, servers: int) -> np.ndarray:
        """Fraction of servers with at least so many tasks, over time."""
        held = [
            sum(float(row[tasks]) for row in r.area[self.first :] if tasks < row.size)
            for r in self.records
        ]
        return np.array(held) / self.time / servers

    def level_time(self, level: int) -> np.ndarray:
        """Fraction of time at a threshold."""
        spent = [
            sum(float(row[level]) for row in r.thresholds[self.first :] if level < row.size)
            for r in self.records
        ]
        return np.array(spent) / self.time

    def changes(self) -> np.ndarray:
        """Changes of the threshold, the warm-up's left out."""
        return np.array([float(r.messages[self.first :, CHANGES].sum()) for r in self.records])

    def announcements(self) -> np.ndarray:
        """Announcements, the warm-up's left out."""
        return np.array(
            [float(r.messages[self.first :, ANNOUNCEMENTS].sum()) for r in self.records]
        )

    def totals(self, servers: int) -> np.ndarray:
        """Tasks present at the end of each stretch, int64[R, stretches]."""
        means = np.array([r.path["mean"] for r in self.records])
        return np.rint(means * servers).astype(int)


def run(
    scenario: Scenario,
    policy: str,
    kernel: str = "auto",
    rows: int = 2,
    stretches: int = 1,
    chunk: int = stream.CHUNK,
) -> Runs:
    """Run all replications of a policy; a warm-up, if the scenario gives one, is the first row."""
    spec = resolve(policy)
    with cut(rows, stretches, chunk):
        kernel = pick_kernel(scenario, kernel, [spec])
        [records] = run_all(scenario, [spec], kernel=kernel, progress=None, workers=None)
        first, _ = warm_up_rows(scenario, records)
    return Runs(scenario, spec, records, first)
