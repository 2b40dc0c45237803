"""What if there were more servers, or fewer: the same traffic in front of fleets of several sizes.

One comparison for each size, all from the same seed: under the events kernel every size and every
policy meets the same tasks. A size that cannot do the work says so in its place.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import EquipoiseError, UnstableError
from ..scenario import Scenario
from ..stats import Estimate
from . import table
from .compare import compare
from .results import METRICS, Comparison, PolicyResult, csv_text
from .run import Progress, Written, default_rank, specs_of
from .variants import with_servers

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

WIDTH = 120


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Policies in front of the same traffic, with fleets of several sizes.

    `sweep[16]` is the comparison with 16 servers, `print(sweep)` the table with sizes across.
    """

    scenario: Scenario
    rank_by: str
    comparisons: dict[int, Comparison]  # by servers; sizes that cannot do the work are missing
    refused: dict[int, str]  # why, by servers
    sizes: tuple[int, ...]
    labels: tuple[str, ...]  # of the policies, the best over all sizes first
    seed: int
    command: str = ""

    def __getitem__(self, servers: int) -> Comparison:
        """Return the comparison with so many servers."""
        if servers in self.comparisons:
            return self.comparisons[servers]
        why = self.refused.get(servers, f"the sizes are {', '.join(map(str, self.sizes))}")
        raise EquipoiseError(f"no comparison with {servers} servers: {why}")

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C came before all was run."""
        return any(c.interrupted for c in self.comparisons.values())

    def result(self, servers: int, label: str) -> PolicyResult | None:
        """Return what a policy did with so many servers; None where nothing was run."""
        c = self.comparisons.get(servers)
        found = [p for p in c.stable if p.label == label] if c is not None else []
        return found[0] if found else None

    def estimate(self, servers: int, label: str, metric: str | None = None) -> Estimate | None:
        """Return a metric, the one ranked by if left out; None where it was not measured."""
        found = self.result(servers, label)
        return None if found is None else found.metrics.get(metric or self.rank_by)

    # as data

    def _estimates(self) -> Iterator[tuple[int, str, str, Estimate]]:
        for servers in self.sizes:
            for label in self.labels:
                found = self.result(servers, label)
                for metric, e in found.metrics.items() if found is not None else ():
                    if math.isfinite(e.value):
                        yield servers, label, metric, e

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and finite numbers: a comparison for each size."""
        return {
            "rank_by": self.rank_by,
            "seed": self.seed,
            "servers": list(self.sizes),
            "comparisons": {str(n): c.to_json() for n, c in self.comparisons.items()},
            "refused": {str(n): why for n, why in self.refused.items()},
        }

    def to_csv(self) -> str:
        """Return the estimates as text: servers,policy,metric,value,error,confidence."""
        rows: list[tuple[object, ...]] = [
            ("servers", "policy", "metric", "value", "error", "confidence")
        ]
        for servers, label, metric, e in self._estimates():
            error = "" if not math.isfinite(e.error) else repr(float(e.error))
            rows.append((servers, label, metric, repr(float(e.value)), error, e.confidence))
        return csv_text(rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return a tidy table with columns servers, policy, metric, value, error."""
        import pandas as pd

        rows = [(n, label, m, float(e.value), float(e.error)) for n, label, m, e in
                self._estimates()]  # fmt: skip
        return pd.DataFrame(rows, columns=["servers", "policy", "metric", "value", "error"])

    def to_xarray(self) -> xr.Dataset:
        """Return every metric and its error over (servers, policy); what does not apply is NaN."""
        frame = self.to_pandas().set_index(["servers", "policy", "metric"])
        return frame.to_xarray()

    # in words

    def text(self, width: int = WIDTH) -> str:
        """Return the table: policies down, sizes across, then what each size costs and means."""
        unit, size = self._unit()
        c = next(iter(self.comparisons.values()))
        head = table.header(c)
        name, _, sure = self.scenario.name, head[1][0], head[1][2]
        lines = [
            f"{name}     {c.scenario.servers.discipline}{table.dispatchers(c)}     {self._loads()}",
            f"{head[1][0]}     {sure}",
            "",
            f"{METRICS[self.rank_by][0]}, {unit}" if unit else METRICS[self.rank_by][0],
        ]
        lines += self._table(size)
        lines += [f"{n} servers: not run: {why}" for n, why in self.refused.items()]
        marked = any("*" in line for line in lines[4:])
        if marked:
            lines.append("* best with so many servers;  = not different from the best.")
        for sentence in self._reading():
            lines += ["", *textwrap.wrap(sentence, width)]
        if self.command:
            lines += [f"Same again: {self.command}"]
        return "\n".join(line.rstrip() for line in lines)

    def _unit(self) -> tuple[str, float]:
        unit = METRICS[self.rank_by][1]
        if unit != "s":
            return unit, 1.0
        values = [
            e.value
            for n in self.sizes
            for label in self.labels
            if (e := self.estimate(n, label)) is not None
        ]
        return table.time_unit(max(values, default=1.0))

    def _loads(self) -> str:
        pool = self.scenario.servers.discipline == "pool"
        loads = [
            f"{table.plain(c.scenario.offered_load()[0], 3)} with {n}"
            for n, c in self.comparisons.items()
        ]
        return ("offered per server " if pool else "load ") + ", ".join(loads)

    def _table(self, size: float) -> list[str]:
        columns = []
        for n in self.sizes:
            cells = []
            c = self.comparisons.get(n)
            tied = (table.ties(c) or frozenset()) if c is not None else frozenset()
            for label in self.labels:
                e = self.estimate(n, label)
                if e is None:
                    cells.append("-" if c is None or self._unstable(n, label) else "")
                    continue
                mark = ""
                if c is not None and len(c.stable) > 1 and c.best is not None:
                    mark = "*" if c.best.label == label else "=" if label in tied else ""
                cells.append(f"{table.pm(e.value / size, e.error / size)} {mark}".rstrip())
            columns.append((f"{n} server{'s' * (n != 1)}", cells))
        first = max(len("policy"), *map(len, self.labels))
        widths = [max(len(head), *map(len, cells)) for head, cells in columns]
        lines = [
            f"  {'policy':<{first}}"
            + "".join(f"   {head:<{w}}" for (head, _), w in zip(columns, widths, strict=True))
        ]
        for i, label in enumerate(self.labels):
            lines.append(
                f"  {label:<{first}}"
                + "".join(
                    f"   {cells[i]:<{w}}" for (_, cells), w in zip(columns, widths, strict=True)
                )
            )
        return lines

    def _unstable(self, servers: int, label: str) -> bool:
        c = self.comparisons[servers]
        return any(p.label == label and p.unstable is not None for p in c.policies)

    def _reading(self) -> list[str]:
        """Say whether a better policy with fewer servers does what a worse one does with more."""
        run = [n for n in self.sizes if n in self.comparisons]
        for few in run:
            best = self.comparisons[few].best
            if best is None or self.rank_by not in best.metrics:
                continue
            for many in reversed(run):
                if many <= few:
                    break
                beaten = [
                    (label, e)
                    for label in self.labels
                    if (e := self.estimate(many, label)) is not None
                    and e.value - e.error > best.metrics[self.rank_by].value
                    + best.metrics[self.rank_by].error
                ]  # fmt: skip
                if beaten:
                    label, e = beaten[-1]
                    ours = best.metrics[self.rank_by]
                    return [
                        f"Reading: {best.label} with {few} server{'s' * (few != 1)} "
                        f"({table.shown(self.comparisons[few], self.rank_by, ours)}) does better "
                        f"than {label} with {many} "
                        f"({table.shown(self.comparisons[many], self.rank_by, e)})."
                    ]
        return []

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        return f"<Sweep of {self.scenario.name!r} over {sizes} servers: {', '.join(self.labels)}>"


def sweep(
    scenario: Scenario,
    policies: Iterable[Written] | None = None,
    *,
    servers: Sequence[int],
    rank_by: str | None = None,
    kernel: str = "auto",
    confidence: float = 0.95,
    progress: Progress | None = None,
    workers: int | None = None,
    command: str = "",
) -> Sweep:
    """Compare policies with fleets of several sizes in front of the same traffic.

    The traffic in tasks per second is that of the scenario whatever its own number of servers.

    Parameters
    ----------
    servers
        The sizes, each >= 1, no two the same.
    policies, rank_by, kernel, confidence, progress, workers, command
        As `compare`.

    Raises
    ------
    EquipoiseError
        If a size makes no sense, none can do the work, the servers differ in speed, or as
        `compare`.
    """
    sizes = tuple(servers)
    if not sizes or any(isinstance(n, bool) or n != int(n) or n < 1 for n in sizes):
        raise EquipoiseError(f"servers = {list(sizes)}: must be whole numbers, at least 1")
    if len(set(sizes)) != len(sizes):
        raise EquipoiseError(f"servers = {list(sizes)}: a size is named twice")
    rank_by = rank_by or default_rank(scenario)
    written = list(policies) if policies is not None else None
    found: dict[int, Comparison] = {}
    refused: dict[int, str] = {}
    labels: dict[str, list[float]] = {}
    for i, n in enumerate(sizes):
        try:
            sized = with_servers(scenario, n)
            if written is None:  # the same at all sizes, so that rows can be compared
                written = [*specs_of(sized, None)]
            found[n] = compare(
                sized, written, rank_by=rank_by, kernel=kernel, confidence=confidence,
                progress=_part(progress, i, len(sizes), n), workers=workers, command=command,
            )  # fmt: skip
        except UnstableError as error:
            refused[n] = str(error).splitlines()[0]
            continue
        for place, p in enumerate(found[n].policies):
            labels.setdefault(p.label, []).append(place)
        if found[n].interrupted:
            break
    if not found:
        raise UnstableError("\n".join(f"{n} servers: {why}" for n, why in refused.items()))
    order = sorted(labels, key=lambda label: (sum(labels[label]) / len(labels[label]), label))
    return Sweep(scenario, rank_by, found, refused, sizes, tuple(order), scenario.run.seed, command)


def _part(progress: Progress | None, i: int, of: int, servers: int) -> Progress | None:
    """Return the progress of one comparison as part of the whole."""
    if progress is None:
        return None
    return lambda done, text: progress((i + done) / of, f"{servers} servers, {text}")


__all__ = ["Sweep", "sweep"]
