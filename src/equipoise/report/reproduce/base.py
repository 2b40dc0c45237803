"""What a reproduced figure is: numbers with errors, beside those published, and a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...policies import resolve
from ...scenario import Scenario
from ...sim.run import Record, pick_kernel, replicate
from ..pictures import STYLE, Drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Told = Callable[[float, str], None] | None  # part done, what is being done


@dataclass(frozen=True)
class Row:
    """One number of a figure; errors are standard errors, nan where there is none."""

    what: str
    value: float
    error: float = math.nan
    reference: float = math.nan  # what was published, or what theory says
    reference_error: float = math.nan
    source: str = ""  # of the reference
    limit: bool = False  # the reference is that of infinitely many servers: near, not equal

    @property
    def apart(self) -> float:
        """How many combined standard errors the two are apart; nan where they need not be equal."""
        if math.isnan(self.reference) or self.limit:
            return math.nan
        both = math.hypot(np.nan_to_num(self.error), np.nan_to_num(self.reference_error))
        away = abs(self.value - self.reference)
        return away / both if both > 0 else (0.0 if away < 1e-12 else math.inf)


@dataclass(frozen=True, eq=False)
class Reproduction(Drawn):
    """A figure made again: print it, `to_json()` it, `plot()` it."""

    name: str
    title: str  # the finding in a sentence
    setting: str  # what was run
    rows: tuple[Row, ...]
    draw: Callable[[], Figure] = field(repr=False)
    seed: int = 1

    def text(self, picture: str | None = None) -> str:
        """Return the numbers as the command line prints them."""
        lines = [self.title, self.setting, ""]
        head = ["", "here", "reference", "apart", "of the reference"]
        table = [head]
        for row in self.rows:
            there = "" if math.isnan(row.reference) else _pair(row.reference, row.reference_error)
            apart = "" if math.isnan(row.apart) else f"{row.apart:.1f} se"
            if math.isinf(row.apart):
                apart = ""
            table.append([row.what, _pair(row.value, row.error), there, apart, row.source])
        if all(not row[2] for row in table[1:]):
            table = [row[:2] for row in table]
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        for cells in table:
            padded = [
                cell.ljust(width) if i in (0, 4) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            lines.append("   ".join(padded).rstrip())
        lines += ["", f"+- is one standard error; seed {self.seed}"]
        if picture is not None:
            lines.append(f"Picture: {picture}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Reproduction({self.name!r}: {self.title})"

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as one object, fit for json.dumps."""
        from ..run import versions

        def plain(x: float) -> float | None:
            return None if math.isnan(x) or math.isinf(x) else float(x)

        return {
            "name": self.name,
            "title": self.title,
            "setting": self.setting,
            "version": versions()["equipoise"],
            "seed": self.seed,
            "rows": [
                {
                    "what": row.what,
                    "value": plain(row.value),
                    "error": plain(row.error),
                    "reference": plain(row.reference),
                    "reference_error": plain(row.reference_error),
                    "apart": plain(row.apart),
                    "source": row.source,
                }
                for row in self.rows
            ],
        }

    def plot(self) -> Figure:
        """Return the picture as a matplotlib figure, of no backend."""
        from matplotlib import rc_context

        with rc_context(STYLE):
            return self.draw()


def _pair(value: float, error: float) -> str:
    """A number and its standard error to the error's two digits."""
    if math.isnan(error) or error == 0:
        return f"{value:.5g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} +- {error:.{digits}f}"


def records(tables: dict[str, Any], policy: Any, runs: int, told: Told, text: str) -> list[Record]:
    """Run `runs` replications of a scenario given as tables; one Record each."""
    scenario, spec = Scenario.from_dict(tables), resolve(policy)
    kernel = pick_kernel(scenario, "auto", [spec])
    out = []
    for replication in range(runs):
        out.append(replicate(scenario, spec, replication, kernel=kernel))
        if told is not None:
            told((replication + 1) / runs, text)
    return out


def part(told: Told, first: float, last: float) -> Told:
    """Return what tells of a part of the work, from `first` to `last`."""
    if told is None:
        return None
    return lambda done, text: told(first + (last - first) * done, text)


def mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the mean and its standard error, nan for one value alone."""
    values = np.asarray(values, float)
    error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
    mean = float(values.mean())
    return mean, 0.0 if error < 1e-12 * abs(mean) else float(error)


def q_of(record: Record, servers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (ends float64[rows] s, q float64[rows, levels]): part of servers with >= i tasks.

    Averages over each row of the record, level 0 first.
    """
    starts = np.concatenate(([0.0], record.ends[:-1]))
    spans = np.maximum(record.ends - starts, 1e-300)
    width = max(len(area) for area in record.area)
    q = np.array([np.pad(area, (0, width - len(area))) for area in record.area])
    return record.ends, q / spans[:, None] / servers


def threshold_shares(record: Record) -> np.ndarray:
    """Return the share of time at each threshold, float64[levels]."""
    width = max(len(row) for row in record.thresholds)
    time = sum(np.pad(row, (0, width - len(row))) for row in record.thresholds)
    shares: np.ndarray = time / np.sum(time)
    return shares


def plain_axes(axes: Any, grid: str = "y") -> None:
    """Take away what is not needed."""
    from ..pictures import RULE

    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)


def titled(figure: Any, title: str, under: str) -> None:
    """The finding in a sentence, and what was run in a smaller line under it."""
    from ..pictures import QUIET

    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold")
    inch = 1 / figure.get_figheight()
    figure.text(0.01, 1 - 0.42 * inch, under, fontsize=9.5, color=QUIET, va="top")
