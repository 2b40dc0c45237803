"""Can a policy carry this load on this fleet, and which servers hold it back?

Theory's answer (theory/stability) for a scenario or for a few numbers, put into words: a verdict
in one line, the numbers under it, what would help. Nothing is simulated. `compare` and `simulate`
ask `unstable_reason` before they run.

Speeds are those of the scenario, per worker; rates are tasks per second, in slotted time tasks
per slot. A load is a rate as a fraction of what all servers together can do.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EquipoiseError
from ..policies import PolicySpec, resolve, unique_labels
from ..policies.law import law_sets
from ..scenario import Scenario, Servers
from .pictures import Drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..theory.stability import Stability

Written = str | Mapping[str, Any] | PolicySpec | Any
NEARLY = 1e-9  # a rule that carries all but this fraction of the capacity loses nothing
DRAWS = ("jsq-d", "ll-d")  # policies that look at d servers
MOST_D = 100  # the curve of capacity against d goes no further
MARGIN = 0.05  # kept free by the mixture with the fewest looks
WIDTH = 100


@dataclass(frozen=True)
class Fleet:
    """The servers a question is about, and the rate at which tasks come."""

    name: str
    groups: tuple[tuple[int, float], ...]  # (count, speed), servers numbered in this order
    discipline: str  # "pool", "fcfs", "ps" or "slotted"
    workers: int = 1  # tasks in service at once; of ps, 0 for no bound
    limit: int | None = None
    mean_service: float = 1.0  # s, at speed 1
    rate: float | None = None  # tasks per second (per slot), all servers together
    peak: float | None = None  # the highest rate where it changes
    curve: tuple[float, ...] | None = None  # r(1), r(2), .. of ps, constant from the last one on

    @classmethod
    def of(cls, scenario: Scenario) -> Fleet:
        """Return the servers and the mean rate of a scenario, over its whole length."""
        servers = scenario.servers
        load, _, peak = scenario.offered_load()
        whole = servers.capacity / scenario.mean_service
        return cls(
            scenario.name,
            groups_of(servers),
            servers.discipline,
            servers.workers or (0 if servers.discipline == "ps" else 1),
            servers.limit,
            scenario.mean_service,
            load * whole,
            None if scenario.stationary else peak * whole,
            _curve(servers),
        )

    @property
    def unit(self) -> str:
        """The unit of time: "s" or "slot"."""
        return "slot" if self.discipline == "slotted" else "s"

    @property
    def count(self) -> int:
        """How many servers there are."""
        return sum(count for count, _ in self.groups)

    @cached_property
    def speed_of(self) -> np.ndarray:
        """The speed of each server, float64[count]."""
        counts, speeds = zip(*self.groups, strict=True)
        return np.repeat(np.array(speeds, float), counts)

    @property
    def rates(self) -> list[tuple[int, float]]:
        """What a server of each group does with many tasks: (count, tasks per unit of time)."""
        full = self.workers if self.curve is None else self.curve[-1]
        return [(count, speed * full / self.mean_service) for count, speed in self.groups]

    @property
    def like_workers(self) -> int:
        """The least number w of workers whose curve min(k, w)/w is nowhere above this fleet's.

        What is proved to be carried by servers of w workers is then carried by these too. A curve
        is taken by the least speed that a server of k tasks or more may have.
        """
        if self.curve is None:
            return self.workers
        if len(self.curve) == 1:
            return 1
        part = np.minimum.accumulate(np.array(self.curve)[::-1])[::-1] / self.curve[-1]
        needed = np.ceil(np.arange(1, part.size + 1) / part - 1e-9)[part < 1]
        # at least 2: what is exact for one worker is not for a curve that falls
        return max(2, int(needed.max(initial=2)))

    @property
    def kind(self) -> str:
        """The discipline in words: "fcfs, 2 workers each"."""
        if self.discipline == "ps":
            share = f", at most {self.workers} share" if self.workers else ""
            fast = self.curve is not None and len(self.curve) > 1
            return f"ps{share}" + (", speed by a curve" if fast else "")
        return self.discipline + (f", {self.workers} workers each" if self.workers > 1 else "")

    @property
    def capacity(self) -> float:
        """Tasks per unit of time that all servers together can do."""
        return float(sum(count * rate for count, rate in self.rates))

    @property
    def shape(self) -> str:
        """The servers in a few words: "90 x 1.0 + 10 x 0.2"."""
        shown = [
            f"{speed:g}" if count == 1 else f"{count} x {speed:g}" for count, speed in self.groups
        ]
        return self.span if len(shown) > 6 else " + ".join(shown)

    @property
    def span(self) -> str:
        """The servers in fewer words: "100 of speeds 0.2 to 1"."""
        speeds = [speed for _, speed in self.groups]
        return f"{self.count} of speeds {min(speeds):g} to {max(speeds):g}"


def _curve(servers: Servers) -> tuple[float, ...] | None:
    if servers.discipline != "ps":
        return None
    return tuple(servers.speed_curve(servers.last_change)[1:].tolist())


def groups_of(servers: Servers) -> tuple[tuple[int, float], ...]:
    """Return the servers of a scenario as (count, speed), neighbours of one speed together."""
    if servers.groups is not None:
        return tuple((group.count, group.speed) for group in servers.groups)
    if servers.speeds is None:
        return ((servers.count, 1.0),)
    speeds = servers.speed_of
    first = np.flatnonzero(np.append(True, speeds[1:] != speeds[:-1]))
    counts = np.diff(np.append(first, speeds.size))
    return tuple(zip(counts.tolist(), speeds[first].tolist(), strict=True))


def stability_of(fleet: Fleet | Scenario, spec: PolicySpec) -> Stability:
    """Return what is known of the load that a policy carries on a fleet.

    Rates are tasks per second, of slotted servers tasks per slot; what is asked is the mean rate of
    a scenario, over its whole length where it changes.
    """
    from ..theory.stability import policy_stability

    fleet = Fleet.of(fleet) if isinstance(fleet, Scenario) else fleet
    params = dict(spec.params)
    if "law" in params:
        params["law"] = law_sets(params["law"])
    found = policy_stability(
        spec.policy.name,
        fleet.rates,
        params,
        rate=fleet.rate,
        discipline="pool" if fleet.discipline == "pool" else "fcfs",
        workers=fleet.like_workers,
        limit=fleet.limit,
    )
    name = _bottleneck_name(fleet, found.bottleneck)  # in the speeds of the scenario
    return dataclasses.replace(found, rule=spec.label, bottleneck_name=name)


def _bottleneck_name(fleet: Fleet, members: np.ndarray) -> str:
    """Say which servers these are: "the 10 slowest of 100 servers (speed 0.2)"."""
    if not members.size:
        return ""
    speeds = fleet.speed_of
    least, most = float(speeds[members].min()), float(speeds[members].max())
    span = f"speed {least:.4g}" if least == most else f"speeds {least:.4g} to {most:.4g}"
    j, n = members.size, fleet.count
    if j == n:
        return f"all {n} servers ({span})" if n > 1 else f"the one server ({span})"
    rest = np.ones(n, bool)
    rest[members] = False
    if most < speeds[rest].min():
        which = "the slowest" if j == 1 else f"the {j} slowest"
        return f"{which} of {n} servers ({span})"
    return f"{numbered(members)} ({span})"


def numbered(members: np.ndarray) -> str:
    """Return servers as text, runs of three or more put together: "servers 0 to 4 and 9"."""
    runs = np.split(members, np.flatnonzero(np.diff(members) != 1) + 1)
    parts: list[str] = []
    for run in runs:
        long = run.size > 2
        parts += [f"{run[0]} to {run[-1]}"] if long else [str(server) for server in run]
    if len(parts) > 8:
        parts = [*parts[:6], f"{members.size} in all"]
    word = "server" if members.size == 1 else "servers"
    return f"{word} {_listed(parts)}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def unstable_reason(scenario: Scenario, spec: PolicySpec) -> str | None:
    """Return why a simulation would only measure its own length; None if that is not known.

    Asked where the traffic does not change. On equal servers the scenario itself refuses a load
    that is too high, and only a sampling law can lose capacity.
    """
    if not scenario.stationary or (scenario.servers.identical and "law" not in spec.params):
        return None
    fleet = Fleet.of(scenario)
    found = stability_of(fleet, spec)
    return found.describe(fleet.unit) if found.stable is False else None


# The answer for several policies.


@dataclass(frozen=True)
class Answer:
    """What one policy carries on the fleet, and what would help."""

    spec: PolicySpec
    fleet: Fleet
    found: Stability

    @property
    def label(self) -> str:
        """The policy with its parameters."""
        return self.spec.label

    @property
    def endless(self) -> bool:
        """Whether no load is too high: pools, and servers that lose what does not fit."""
        return bool(np.isinf(self.found.lam_max))

    @property
    def carried(self) -> float:
        """The load that is carried for certain, a fraction of the capacity."""
        return self.found.lam_max / self.fleet.capacity

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        found, fleet = self.found, self.fleet
        if self.endless:
            return f"carries any load: {found.reason}"
        whole = f"{_plain(found.lam_max)} of {per(fleet.capacity, fleet.unit)}"
        if fleet.rate is None:
            if found.optimal:
                return f"loses nothing: it carries all of {per(fleet.capacity, fleet.unit)}"
            least = "" if found.known else "at least "
            carries, lost = _apart(self.carried, 1.0)[0], f"{found.loss:.3g} %"
            tail = f"; {lost} is lost" if found.known else "; beyond that it is not known"
            return f"carries {least}{carries} of the capacity ({whole}){tail}"
        asked = fleet.rate / fleet.capacity
        load, most = _apart(asked, self.carried)
        if found.stable:
            return f"stable: load {load} of the capacity, carries up to {most}"
        if asked > 1:
            return f"UNSTABLE: load {load} of the capacity, more than any policy can carry"
        if found.stable is None and not found.known:
            return f"not known: load {load} of the capacity, surely carries {most}; simulate it"
        if found.stable is None:
            return f"on the edge: load {load} of the capacity, just what it can carry"
        return f"UNSTABLE: load {load} of the capacity, carries only {most}: queues grow for ever"

    @cached_property
    def safe_d(self) -> int | None:
        """The least d of jsq-d that carries the rate; with no rate asked, that loses nothing.

        None where that needs no d: pools, limits, loads that nobody carries.
        """
        from ..theory.stability import smallest_d

        fleet = self.fleet
        wanted = fleet.capacity * (1 - NEARLY) if fleet.rate is None else fleet.rate
        if self.endless or wanted >= fleet.capacity:
            return None
        return smallest_d(fleet.rates, wanted)

    @cached_property
    def fewest(self) -> dict[int, float] | None:
        """Of a rule that looks at servers: {d: probability} with the fewest looks on average.

        The load is at most 95 % of what it carries. None where no such law is needed or known.
        """
        from ..theory.stability import fewest_looks

        rate = self.fleet.rate
        if rate is None or not self.uniform or self.safe_d in (None, 1):
            return None
        if rate > (1 - MARGIN) * self.fleet.capacity:
            return None
        return fewest_looks(self.fleet.rates, rate, margin=MARGIN, one_is_free=False)[0]

    @property
    def uniform(self) -> bool:
        """Whether it looks at d distinct servers, drawn uniformly."""
        params = self.spec.params
        return (
            self.spec.policy.name in DRAWS
            and params["sampling"] == "uniform"
            and not params["replacement"]
        )

    @cached_property
    def change(self) -> float | None:
        """How far the speeds are from losing capacity, in speeds; negative if some is lost.

        The Euclidean distance of the vector of all speeds; None where uniform draws do not decide.
        """
        from ..theory.stability import distance_to_boundary

        if not self.uniform or self.endless:
            return None
        return distance_to_boundary(self.fleet.groups, self.spec.params["d"])

    def rows(self) -> list[tuple[str, str]]:
        """Return the numbers under the verdict, (what, text)."""
        found, fleet = self.found, self.fleet
        if self.endless:
            return []
        unit, whole = fleet.unit, fleet.capacity
        rows = [("Carries", f"{_plain(found.lam_max)} of {per(whole, unit)}{self._lost()}")]
        if found.known and not found.optimal:
            must, can = 100 * found.bottleneck_share, 100 * found.bottleneck_speed / whole
            rows.append(
                (
                    "Bottleneck",
                    f"{found.bottleneck_name}: {must:.3g} % of the tasks can go nowhere else, "
                    f"they have {can:.3g} % of the speed",
                )
            )
        if fleet.rate is not None and found.stable is True:
            spare = found.lam_max - fleet.rate
            rows.append(
                (
                    "To spare",
                    f"{per(spare, unit)}, {100 * spare / fleet.rate:.3g} % more than comes",
                )
                if fleet.rate > 0
                else ("To spare", per(spare, unit))
            )
        if found.stable is False and found.growth:
            grown = f"{per(found.growth, unit)}, all queues together"
            if unit == "s":
                grown += f": {found.growth * 3600:,.0f} more after every hour"
            rows.append(("Growth", grown))
        rows += self._cures()
        if self.change is not None and fleet.count != 1:
            rows.append(("Speeds", self._room(self.change)))
        if not found.known or found.optimal:
            rows.append(("Because", found.reason))
        return rows

    def _lost(self) -> str:
        found = self.found
        if found.optimal:
            return ": no capacity is lost"
        if not found.known:
            return f" for certain, load {self.carried:.3g} of 1; beyond that it is not known"
        return f": load {self.carried:.3g} of 1, loses {found.loss:.3g} % of the capacity"

    def _room(self, change: float) -> str:
        if change <= 0:
            return (
                f"at least {_plain(-change, 3)} from where nothing is lost "
                "(Euclidean distance between lists of speeds)"
            )
        return (
            f"{_plain(change, 3)} from where capacity is about to be lost "
            "(Euclidean distance between lists of speeds)"
        )

    def _cures(self) -> list[tuple[str, str]]:
        """What would carry the load, or lose nothing where no load was asked about."""
        found, name = self.found, self.spec.policy.name
        enough = found.optimal if found.stable is None else found.stable
        params = self.spec.params
        if self.safe_d is None or not found.known:
            return []
        if name not in (*DRAWS, "random", "round-robin", "sampled"):
            return []
        if enough and not self.uniform:
            return []
        rows = []
        d = f"d = {self.safe_d}"
        if name in ("random", "round-robin"):
            text = f"{name}(weighted=true), or jsq-d with {d}"
        elif name == "sampled":
            text = f"jsq-d with d = {max(2, self.safe_d)}, or a law that leads fewer tasks there"
        else:
            text = d
            if not enough:
                text += (
                    f", or sampling in proportion to speed: {name}(d={params['d']}, sampling=speed)"
                )
        rows.append(("Safe from" if name in DRAWS else "Instead", text))
        if self.fewest is not None and len(self.fewest) > 1:
            looks = sum(d * p for d, p in self.fewest.items())
            parts = [f"{d} for {100 * p:.3g} %" for d, p in sorted(self.fewest.items())]
            rows.append(
                (
                    "Fewest looks",
                    f"d = {_listed(parts)} of the tasks, {looks:.3g} on average, "
                    f"keeps {100 * MARGIN:g} % free",
                )
            )
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return all of it as one object; what does not apply is absent."""
        found, fleet = self.found, self.fleet
        out: dict[str, Any] = {
            "name": self.spec.policy.name,
            "label": self.label,
            "params": {k: v for k, v in self.spec.params.items() if v is not None},
            "verdict": self.verdict,
            "reason": found.reason,
        }
        if fleet.rate is not None:
            out["stable"] = found.stable
        if self.endless:
            return {**out, "carries_any_load": True}
        out |= {
            "known": found.known,
            "lam_max": found.lam_max,
            "lam_upper": found.lam_upper,
            "load_max": self.carried,
            "loss_percent": found.loss,
            "loses_nothing": found.optimal,
        }
        if found.bottleneck.size:
            members = found.bottleneck
            runs = np.split(members, np.flatnonzero(np.diff(members) != 1) + 1)
            out["bottleneck"] = {
                "text": found.bottleneck_name,
                "count": int(members.size),
                "servers": [[int(run[0]), int(run[-1])] for run in runs],
                "speed": found.bottleneck_speed,
                "share": found.bottleneck_share,
            }
        if fleet.rate is not None:
            out["distance"] = found.distance
            for key in ("growth", "bottleneck_growth"):
                if getattr(found, key) is not None:
                    out[key] = getattr(found, key)
        if self.safe_d is not None:
            out["safe_d"] = self.safe_d
        if self.fewest is not None:
            out["fewest_looks"] = {str(d): p for d, p in sorted(self.fewest.items())}
        if self.change is not None:
            out["distance_of_speeds"] = self.change
        return out


@dataclass(frozen=True)
class StabilityReport(Drawn):
    """Which policies carry a load on a fleet: what `stability` returns.

    `print` it for the text of the command line; `to_json()` for other programs; `plot()` for the
    picture.
    """

    fleet: Fleet
    answers: tuple[Answer, ...]

    @cached_property
    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """What jsq-d carries at d = 1 .. k: (lam_max float64[k], servers that hold it int64[k])."""
        from ..theory.stability import capacity_by_d

        return capacity_by_d(self.fleet.rates, self._most_d())

    def _most_d(self) -> int:
        """How far the curve goes: a little beyond all that is asked and where nothing is lost."""
        asked = [a.spec.params["d"] for a in self.answers if a.spec.policy.name in DRAWS]
        safe = [a.safe_d for a in self.answers if a.safe_d is not None]
        far = max([4, *asked, *(2 * d for d in safe)])
        return min(self.fleet.count, far + 2, max(MOST_D, *asked, 1))

    def __getitem__(self, label: str) -> Answer:
        for answer in self.answers:
            if label in (answer.label, answer.spec.policy.name):
                return answer
        raise EquipoiseError(
            f"no policy here is called '{label}'; they are: "
            f"{', '.join(answer.label for answer in self.answers)}"
        )

    def text(self, picture: str | None = None) -> str:
        """Return it as the command line prints it; `picture` names the file that was written."""
        fleet = self.fleet
        head = f"{fleet.shape} ({fleet.count} servers, {fleet.kind})"
        head += f", together {per(fleet.capacity, fleet.unit)}"
        if fleet.rate is not None and fleet.discipline != "pool":
            head += f"; asked: {_plain(fleet.rate)}, load {fleet.rate / fleet.capacity:.4g}"
        lines = _row("Fleet", head, 0)
        if fleet.peak is not None and fleet.rate is not None and fleet.discipline != "pool":
            lines += _row(
                "Note",
                f"the rate changes; what is asked is its mean. At its highest the load is "
                f"{fleet.peak / fleet.capacity:.3g}",
                0,
            )
        for answer in self.answers:
            lines += ["", *_wrapped(f"{answer.label}: {answer.verdict}")]
            for what, text in answer.rows():
                lines += _row(what, text, 2)
        lines.append("")
        if picture is not None:
            lines += _row("Picture", picture, 0)
        else:
            lines += _row("Picture", "--picture stability.svg draws capacity against d", 0)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text().rpartition("\n\n")[0]

    def __repr__(self) -> str:
        shown = "; ".join(f"{a.label}: {a.verdict.partition(':')[0]}" for a in self.answers)
        return f"StabilityReport({self.fleet.shape}; {shown})"

    def to_json(self) -> dict[str, Any]:
        """Return everything as one object, fit for json.dumps."""
        from .run import versions

        fleet = self.fleet
        out: dict[str, Any] = {
            "name": fleet.name,
            "version": versions()["equipoise"],
            "servers": fleet.count,
            "discipline": fleet.discipline,
            "workers": fleet.workers or None,
            **({} if fleet.curve is None else {"curve": list(fleet.curve)}),
            "groups": [{"count": count, "speed": speed} for count, speed in fleet.groups],
            "mean_service": fleet.mean_service,
            "unit": f"tasks per {fleet.unit}",
            "capacity": fleet.capacity,
            "policies": [answer.to_json() for answer in self.answers],
        }
        if fleet.limit is not None:
            out["limit"] = fleet.limit
        if fleet.rate is not None:
            out |= {"rate": fleet.rate, "load": fleet.rate / fleet.capacity}
        if fleet.peak is not None:
            out["peak_load"] = fleet.peak / fleet.capacity
        if not all(answer.endless for answer in self.answers):
            best, slow = self.curve
            out["capacity_by_d"] = {"lam_max": best.tolist(), "bottleneck": slow.tolist()}
        return out

    def plot(self) -> Figure:
        """Return the picture as a matplotlib figure: see `stability_plot.draw`."""
        from .stability_plot import draw

        return draw(self)


def stability(
    scenario: Scenario | Fleet,
    policies: Iterable[Written] | Written | None = None,
    *,
    rate: float | None = None,
    load: float | None = None,
) -> StabilityReport:
    """Return which policies carry the load on a fleet, and which servers hold the others back.

    Parameters
    ----------
    scenario
        Servers and traffic; or `fleet_of(...)`, servers alone.
    policies
        As for `compare`: names, labels, tables, specs. If absent those of the scenario, or random
        and jsq-d in both ways of sampling, and jsq.
    rate, load
        Another rate (tasks per second, per slot) or load (fraction of the capacity) than that of
        the scenario; at most one of them.

    Raises
    ------
    EquipoiseError
        If a policy is unknown or makes no sense for so many servers, or a rate is not one.

    Examples
    --------
    >>> print(stability(fleet_of([(80, 1.0), (20, 0.01)]), "jsq-d", load=0.9)["jsq-d"].verdict)
    UNSTABLE: load 90 % of the capacity, carries only 6.5 %: queues grow for ever
    """
    fleet = Fleet.of(scenario) if isinstance(scenario, Scenario) else scenario
    fleet = asked_at(fleet, rate, load)
    own = scenario.policies if isinstance(scenario, Scenario) else ()
    if isinstance(policies, str | PolicySpec | Mapping) or hasattr(policies, "choose"):
        policies = [policies]
    written: Sequence[Any] = list(policies or []) or list(own) or _telling(fleet)
    specs = [resolve(one) for one in written]
    unique_labels(specs)
    for spec in specs:
        spec.check(fleet.count)
    return StabilityReport(
        fleet, tuple(Answer(spec, fleet, stability_of(fleet, spec)) for spec in specs)
    )


def fleet_of(
    groups: Iterable[tuple[int, float]] | Iterable[float], *, name: str = "fleet"
) -> Fleet:
    """Return servers alone, single ones, first come, first served, with tasks of mean 1 s.

    Parameters
    ----------
    groups
        (count, speed) of each group of equal servers, or a speed for each server.

    Raises
    ------
    EquipoiseError
        If there are no servers, or a count or a speed makes no sense.
    """
    from ..theory.stability import as_fleet

    given = as_fleet(list(groups))  # type: ignore[arg-type]
    counts = np.ones(given.given_speeds.size, int)
    if given.given_counts is not None:
        counts = given.given_counts
    pairs = zip(counts.tolist(), given.given_speeds.tolist(), strict=True)
    return Fleet(name, tuple(pairs), "fcfs")


def asked_at(fleet: Fleet, rate: float | None, load: float | None) -> Fleet:
    """Return the fleet, asked at another rate (tasks per unit of time) or load.

    Raises
    ------
    EquipoiseError
        If both are given, or what is given is not a number >= 0.
    """
    if rate is None and load is None:
        return fleet
    if rate is not None and load is not None:
        raise EquipoiseError("rate and load both say how much comes; give one")
    name, value = ("rate", rate) if rate is not None else ("load", load)
    assert value is not None
    if not (np.isfinite(value) and value >= 0):
        raise EquipoiseError(f"{name} = {value:g} must be a finite number >= 0")
    asked = value if load is None else value * fleet.capacity
    return dataclasses.replace(fleet, rate=float(asked), peak=None)


def _telling(fleet: Fleet) -> list[Written]:
    """The policies told of when none are named."""
    if fleet.count == 1:
        return ["random"]
    return ["jsq-d", {"name": "jsq-d", "sampling": "speed"}, "random", "jsq"]


# Words and numbers.


def _plain(x: float, digits: int = 5) -> str:
    from .table import plain

    return plain(x, digits)


def per(rate: float, unit: str) -> str:
    """Return a rate as text: "92 tasks per s"."""
    shown = _plain(rate)
    return f"{shown} {'task' if shown == '1' else 'tasks'} per {unit}"


def _apart(a: float, b: float) -> tuple[str, str]:
    """Return two fractions as percentages, with as many digits as it takes to tell them apart."""
    for digits in (3, 4, 5, 7, 10):
        first, second = f"{100 * a:.{digits}g} %", f"{100 * b:.{digits}g} %"
        if first != second or a == b:
            break
    return first, second


def _row(what: str, text: str, indent: int) -> list[str]:
    lead = " " * indent + f"{what:<{15 - indent}}"
    return _wrapped(text, lead)


def _wrapped(text: str, lead: str = "") -> list[str]:
    lines = textwrap.wrap(
        text.replace(" %", "\N{NO-BREAK SPACE}%"),
        WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead) if lead else "    ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


__all__ = [
    "Answer",
    "Fleet",
    "StabilityReport",
    "asked_at",
    "fleet_of",
    "stability",
    "stability_of",
    "unstable_reason",
]
