"""What theory says about a scenario as the number of servers grows, beside a simulation on request.

Pools: trajectory, rest point, best thresholds, learning and its cost, the spread that is left at
this n. Queues: mean wait, lengths and messages of each policy whose limit is known, and which one
to take under a budget of messages. `theory` has the equations; here they meet a scenario.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EquipoiseError, PolicyMismatch
from ..policies import PolicySpec, resolve, unique_labels
from ..scenario import Poisson, Scenario
from ..scenario.service import Exponential
from .pictures import Drawn
from .run import Progress, Written, versions
from .table import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..theory.pools import PoolTheory
    from ..theory.sparse import Recommendation
    from .results import Simulation

WIDTH = 98
LEAST_SHARE = 5e-4  # of the pools that a level must have to be named
SPARSE = ("sujsq-det", "sujsq-exp", "aujsq-det", "aujsq-exp")
POOLS = ("threshold", "learning-threshold", "total-threshold", "jsq", "jsq-d", "random")
QUEUES = ("random", "round-robin", "jsq-d", "jsq", "jiq", "sparsified-jiq", *SPARSE)


@dataclass(frozen=True, eq=False)
class PoolAnswer:
    """The limit of pools under one policy; `theory` is in mean service times."""

    label: str
    spec: PolicySpec
    theory: PoolTheory
    unit: float  # s, the mean service time
    simulation: Simulation | None = None

    def rows(self) -> list[tuple[str, str]]:
        """Return what there is to say: (what, in words)."""
        t = self.theory
        out = []
        if t.level is not None:
            out.append(("Threshold", self._threshold()))
        if t.settled is not None:
            out.append(("Learnt", self._learnt()))
        if t.load is not None and t.occupancy is not None:
            out.append(("At rest", f"{_shares(t.occupancy)}, as n grows"))
            out.append((f"At n = {t.servers}", self._at_this_n()))
        elif t.load is None:
            worst = int(np.argmax(t.imbalance))
            out.append(
                (
                    "Imbalance",
                    f"Euclidean distance from the balanced state at most "
                    f"{plain(float(t.imbalance[worst]), 3)}, at {self._time(t.path.times[worst])}",
                )
            )
        if t.messages is not None:
            out.append(("Messages", self._messages()))
        out.append(("Memory", f"{t.memory:g} bits per server" if t.memory else "none"))
        if t.loss is not None:
            out.append(("Loss", f"{plain(100 * t.loss, 3)} % of the tasks find all pools full"))
        if self.simulation is not None:
            out += self._simulated()
        out += [("Note", text) for text in t.warnings]
        return out

    def _threshold(self) -> str:
        t = self.theory
        if t.load is None:
            levels = np.unique(t.path.levels if t.path.levels is not None else np.zeros(0))
            moved = f"moves between {levels[0]} and {levels[-1]}" if len(levels) > 1 else "stays"
            return f"{moved}, {len(t.path.changes)} changes by {self._time(t.path.times[-1])}"
        assert t.best_level is not None
        many = len(t.best_levels)
        text = f"{t.best_level} is right for load {plain(t.load)}"
        if many > 1:
            text += f" (so are {', '.join(str(x) for x in t.best_levels if x != t.best_level)})"
        return f"{text}; {self._beside()}"

    def _beside(self) -> str:
        """What a threshold too low or too high costs."""
        from ..theory.pools import rest_point

        t = self.theory
        assert t.load is not None
        assert t.best_level is not None
        right = rest_point(t.load, t.best_level, t.step).variance
        parts = []
        for words, level in (
            ("one step lower", t.best_level - t.step),
            ("one higher", t.best_level + t.step),
        ):
            if level >= 0:
                wrong = rest_point(t.load, level, t.step).variance
                parts.append(f"{words} {plain(wrong, 3)}")
        return f"variance of the tasks at a pool {plain(right, 3)}, {', '.join(parts)}"

    def _learnt(self) -> str:
        t = self.theory
        assert t.settled is not None
        how = f"with alpha = {plain(t.alpha, 4)}" if t.alpha is not None else "by the total"
        text = f"{how} the threshold stands at {t.final_level} after {self._time(t.settled)}"
        if t.settling is not None and np.isfinite(t.settling.bound):
            text += f" (at most {self._time(t.settling.bound)}"
            spread = t.settling.spread(t.servers, t.load) if t.load is not None else np.inf
            if np.isfinite(spread) and t.settled > 0:
                text += f"; +- {self._time(spread)} at n = {t.servers}"
            text += ")"
        if t.best_alpha is not None and t.alpha is not None and t.equilibria is not None:
            if len(t.equilibria.possible) > 1:
                levels = " or ".join(str(level) for level in t.equilibria.possible)
                text += f"; it may come to rest at {levels}"
            if not t.equilibria.optimal:
                text += f"; alpha = {plain(t.best_alpha, 4)} leaves only {t.best_level}"
        return text

    def _at_this_n(self) -> str:
        t = self.theory
        assert t.load is not None
        sd = (t.load / t.servers) ** 0.5
        text = f"tasks per pool vary by +- {plain(sd, 2)} (one standard deviation, exact)"
        if t.finite_distance is not None:
            text += (
                f"; distance from the balanced state about {plain(t.finite_distance, 2)}, "
                f"{plain(_none(t.rest_distance), 2)} as n grows"
            )
        return text

    def _messages(self) -> str:
        t = self.theory
        assert t.messages is not None
        text = f"{plain(t.messages, 3)} per task"
        if t.on_arrival and t.on_departure:
            text += f" ({plain(t.on_arrival, 3)} when it comes, the rest when it ends)"
        if t.learning is not None and t.learning.changes:
            text += (
                f"; learning takes {t.learning.changes} changes: {t.learning.announcements:,} "
                f"announcements and {t.learning.answers:,.0f} answers in all"
            )
        if t.learning_messages:
            text += f"; then at most {plain(t.learning_messages, 2)} answers per task"
        return text

    def _simulated(self) -> list[tuple[str, str]]:
        assert self.simulation is not None
        found, t = self.simulation.policy, self.theory
        if found.unstable:
            return [("Simulated", found.unstable)]
        out = [
            (
                "Simulated",
                f"{_shares(_q(found.occupancy))}, {self.simulation.replications} replications of "
                f"n = {t.servers}",
            )
        ]
        rest = t.occupancy
        if rest is not None:
            q = _q(found.occupancy)
            width = max(q.size, rest.size)
            gap = np.abs(np.pad(q, (0, width - q.size)) - np.pad(rest, (0, width - rest.size)))
            text = f"q differs from the limit by at most {plain(float(gap.max()), 2)}"
            messages = found.metrics.get("messages_per_task")
            if messages is not None and t.messages is not None:
                text += f"; messages per task {messages} against {plain(t.messages, 3)}"
            out.append(("Difference", text))
        return out

    def _time(self, times: float) -> str:
        """A time in mean service times, and in seconds where these are another unit."""
        text = f"{plain(float(times), 3)} mean service times"
        return text if self.unit == 1 else f"{text} ({plain(float(times) * self.unit, 3)} s)"

    def to_json(self) -> dict[str, Any]:
        """Return it as an object fit for json.dumps; times in mean service times."""
        t = self.theory
        out: dict[str, Any] = {
            "label": self.label,
            "name": self.spec.policy.name,
            "params": dict(self.spec.params),
            "level": t.final_level if t.level is None else t.level,
            "best_levels": list(t.best_levels),
            "best_alpha": t.best_alpha,
            "alpha": t.alpha,
            "settled": t.settled,
            "settling_bound": t.settling.bound if t.settling is not None else None,
            "final_level": t.final_level,
            "occupancy": None if t.occupancy is None else t.occupancy[1:].tolist(),
            "messages_per_task": t.messages,
            "memory_bits": t.memory,
            "distance": t.rest_distance,
            "distance_at_n": t.finite_distance,
            "changes_per_service_time": t.changes,
            "loss": t.loss,
            "warnings": list(t.warnings),
            "trajectory": {
                "times": t.path.times.tolist(),
                "occupancy": t.path.occupancy[:, 1:].tolist(),
                "offered": t.path.offered.tolist(),
                "levels": None if t.path.levels is None else t.path.levels.tolist(),
                "error": t.path.error,
            },
        }
        if self.simulation is not None:
            out["simulation"] = self.simulation.to_json()
        return out


@dataclass(frozen=True, eq=False)
class QueueAnswer:
    """The limit of queues under one policy; waits in mean service times."""

    label: str
    spec: PolicySpec
    mean_wait: float
    lengths: np.ndarray  # float64[levels], part of servers with i tasks
    messages: float  # per task
    exact: bool  # at every number of servers, not only as it grows
    error: float  # how far mean_wait may be off
    unit: float  # s, the mean service time
    simulation: Simulation | None = None

    @property
    def mean_tasks(self) -> float:
        """Tasks per server."""
        return float(np.arange(self.lengths.size) @ self.lengths)

    def to_json(self) -> dict[str, Any]:
        """Return it as an object fit for json.dumps; waits in mean service times."""
        out: dict[str, Any] = {
            "label": self.label,
            "name": self.spec.policy.name,
            "params": dict(self.spec.params),
            "mean_wait": self.mean_wait,
            "mean_wait_error": self.error,
            "mean_tasks": self.mean_tasks,
            "lengths": self.lengths.tolist(),
            "messages_per_task": self.messages,
            "exact": self.exact,
        }
        if self.simulation is not None:
            out["simulation"] = self.simulation.to_json()
        return out


@dataclass(frozen=True, eq=False)
class LimitReport(Drawn):
    """What `limit` returns: `print` it, `to_json()` it, `plot()` it."""

    scenario: Scenario
    load: float | None  # None where it varies
    answers: tuple[PoolAnswer, ...] | tuple[QueueAnswer, ...]
    recommendation: Recommendation | None = None
    command: str = field(default="", repr=False)

    @property
    def pools(self) -> bool:
        """Whether servers are pools."""
        return self.scenario.servers.discipline == "pool"

    def __getitem__(self, label: str) -> PoolAnswer | QueueAnswer:
        for answer in self.answers:
            if label in (answer.label, answer.spec.policy.name):
                return answer
        raise EquipoiseError(
            f"no policy here is called '{label}'; they are: "
            f"{', '.join(answer.label for answer in self.answers)}"
        )

    def text(self, picture: str | None = None) -> str:
        """Return it as the command line prints it; `picture` names the file that was written."""
        n = self.scenario.servers.count
        if self.pools:
            offered = f"offered {plain(self.load)} tasks per server" if self.load else "a load "
            head = f"pools, {offered}{'' if self.load else 'that varies'}, n = {n}"
            lines = [head]
            for answer in self.answers:
                assert isinstance(answer, PoolAnswer)
                lines += ["", answer.label]
                for what, text in answer.rows():
                    lines += _row(what, text)
        else:
            lines = [f"queues, load {plain(self.load or 0.0)}, n = {n}; waits in {self._unit}", ""]
            lines += self._table()
            if self.recommendation is not None:
                lines += ["", *self._advice()]
        lines.append("")
        told = picture or "--picture limit.svg draws it"
        return "\n".join(lines + _row("Picture", told, 0))

    @cached_property
    def _unit(self) -> str:
        mean = self.scenario.mean_service
        return "mean service times" + ("" if mean == 1 else f" of {plain(mean)} s")

    def _table(self) -> list[str]:
        """A line for each policy, least wait first."""
        queues = sorted(self._queues, key=lambda a: (a.mean_wait, a.messages))
        beside = any(a.simulation is not None for a in queues)
        head = ["policy", "mean wait", "messages/task", "tasks/server"]
        head += ["simulated wait"] if beside else []
        rows = []
        for a in queues:
            mark = "" if a.exact else " *"
            row = [
                a.label,
                f"{a.mean_wait:.4f}{mark}",
                f"{a.messages:.3f}",
                f"{a.mean_tasks:.4f}",
            ]
            if beside:
                row.append(self._beside(a))
            rows.append(row)
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        lines = [
            "   ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(r, widths, strict=True))
            ).rstrip()
            for r in [head, *rows]
        ]
        if not all(a.exact for a in queues):
            lines += [
                "",
                *_wrapped(
                    "* as the number of servers grows; finite fleets differ by order 1/n, and by "
                    "order 1/sqrt(n) where hardly anybody waits. The others are exact at this n."
                ),
            ]
        return lines

    @property
    def _queues(self) -> list[QueueAnswer]:
        return [a for a in self.answers if isinstance(a, QueueAnswer)]

    def _beside(self, answer: QueueAnswer) -> str:
        if answer.simulation is None:
            return ""
        found = answer.simulation.policy
        if found.unstable:
            return "unstable"
        wait, unit = found.metrics["mean_wait"], answer.unit
        return f"{wait.value / unit:.4f} +- {wait.error / unit:.4f}"

    def _advice(self) -> list[str]:
        found = self.recommendation
        assert found is not None
        budget = f"{plain(found.messages_per_task)} messages per task ({found.mode})"
        lines = _row("Budget", f"{budget}: {found.best.label}", 0)
        lines += _row(
            "To expect",
            f"mean wait {plain(found.best.mean_wait)} with {plain(found.best.messages)} messages "
            "per task",
            0,
        )
        others = [o for o in found.options[1:] if o.mean_wait > found.best.mean_wait][:4]
        if others:
            told = ", ".join(f"{o.label} {plain(o.mean_wait)}" for o in others)
            lines += _row("Instead of", told, 0)
        more = found.with_one_more
        lines += _row(
            "One more",
            f"with {plain(found.messages_per_task + 1)} messages per task {more.label} waits "
            f"{plain(more.mean_wait)}, {plain(found.saved_by_one_more)} less; at the margin "
            f"{plain(found.marginal)} less per message",
            0,
        )
        for why in found.left_out:
            lines += _row("Left out", why, 0)
        return lines

    def __str__(self) -> str:
        return self.text().rpartition("\n\n")[0]

    def __repr__(self) -> str:
        return f"LimitReport({self.scenario.name!r}: {', '.join(a.label for a in self.answers)})"

    def to_json(self) -> dict[str, Any]:
        """Return everything as one object, fit for json.dumps."""
        out: dict[str, Any] = {
            "name": self.scenario.name,
            "version": versions()["equipoise"],
            "servers": self.scenario.servers.count,
            "discipline": self.scenario.servers.discipline,
            "load": self.load,
            "mean_service": self.scenario.mean_service,
            "policies": [answer.to_json() for answer in self.answers],
        }
        found = self.recommendation
        if found is not None:
            out["recommendation"] = {
                "messages_per_task": found.messages_per_task,
                "mode": found.mode,
                "options": [
                    {
                        "label": o.label,
                        "policy": o.policy,
                        "params": dict(o.parameters),
                        "messages_per_task": o.messages,
                        "mean_wait": o.mean_wait,
                        "mean_wait_error": o.error,
                    }
                    for o in found.options
                ],
                "with_one_more": found.with_one_more.label,
                "saved_by_one_more": found.saved_by_one_more,
                "marginal": found.marginal,
                "left_out": list(found.left_out),
            }
        return out

    def plot(self) -> Figure:
        """Return the picture as a matplotlib figure: see `limit_plot.draw`."""
        from .limit_plot import draw

        return draw(self)


def limit(
    scenario: Scenario,
    policies: Iterable[Written] | Written | None = None,
    *,
    messages_per_task: float | None = None,
    mode: str = "pull",
    simulate: bool = False,
    kernel: str = "auto",
    progress: Progress | None = None,
    workers: int | None = None,
    command: str = "",
) -> LimitReport:
    """Return what theory says about a scenario as the number of servers grows.

    Parameters
    ----------
    scenario
        Pools with Poisson arrivals of any rate; or queues, one worker each, with Poisson arrivals
        of constant rate; service exponential. Servers are equal.
    policies
        As for `compare`. If absent those of the scenario whose limit is known; else the learning
        threshold for pools, and all that is known without parameters for queues.
    messages_per_task, mode
        Ask which policy for queues waits least with so many messages per task, and whether servers
        may tell by themselves ("pull") or only answer ("push").
    simulate, kernel
        Simulate the scenario too, with this kernel, and put it beside.

    Raises
    ------
    PolicyMismatch
        If no limit is known of a policy that was named.
    EquipoiseError
        If the scenario is one that theory here does not cover; it says what would be.
    """
    pool = scenario.servers.discipline == "pool"
    _check(scenario)
    if messages_per_task is not None and pool:
        raise EquipoiseError(
            "a budget of messages is for queues; thresholds on pools need at most 2 per task"
        )
    specs = _chosen(scenario, policies, POOLS if pool else QUEUES)
    load = scenario.offered_load()[0] if scenario.stationary else None
    make = _pool_answer if pool else _queue_answer
    found = None
    if messages_per_task is not None:
        from ..theory.sparse import recommend

        assert load is not None
        found = recommend(load, messages_per_task, mode=mode)
        wanted = [o.label for o in found.options[:1]]
        known = {spec.label for spec in specs}
        specs += [s for s in map(resolve, wanted) if s.label not in known]
        unique_labels(specs)
    answers: list[Any] = []
    for spec in specs:
        run = None
        if simulate:
            from .simulate import simulate as run_policy

            run = run_policy(scenario, spec, kernel=kernel, progress=progress, workers=workers)
        answers.append(make(scenario, spec, load, run))
    return LimitReport(scenario, load, tuple(answers), found, command)


def _check(scenario: Scenario) -> None:
    """Refuse what no limit here covers, in one line."""
    servers, service, arrivals = scenario.servers, scenario.service, scenario.arrivals
    pool = servers.discipline == "pool"
    why = ""
    if servers.discipline not in ("pool", "fcfs"):
        why = f'servers of discipline "{servers.discipline}"; take "pool" or "fcfs"'
    elif not servers.identical:
        why = "unequal servers; `equipoise stability` has what is known of them"
    elif not pool and (servers.workers or 1) > 1:
        why = "queues with several workers; take workers = 1"
    elif not pool and servers.limit is not None:
        why = "queues with a limit; remove it"
    elif not pool and not isinstance(arrivals, Poisson):
        why = "queues whose load varies; take a constant Poisson rate"
    elif scenario.flow is None:
        why = f"arrivals by the law '{arrivals.law}'; take Poisson arrivals, or `equipoise compare`"
    elif not isinstance(service, Exponential) and coxian_of(scenario) is None:
        why = f"service by the law '{service.law}'; take exponential service"
    elif not pool and not isinstance(service, Exponential):
        why = f"queues with service by the law '{service.law}'; take exponential service"
    elif scenario.batch is not None:
        why = "arrivals in batches; take batch = 1"
    elif scenario.dispatchers.several:
        why = "several dispatchers; take dispatchers = 1"
    if why:
        raise EquipoiseError(f"theory has no limit here for {why}")


def rate_of(scenario: Scenario) -> Any:
    """Return the arrivals per pool and mean service time as a `theory.pools.Rate`; None if none."""
    from ..theory import pools

    mean, n, flow = scenario.mean_service, scenario.servers.count, scenario.flow
    if flow is None:
        return None
    to_pool = mean / n
    if flow.amplitude > 0:
        return pools.Sinusoid(
            float(flow.base[0]) * to_pool, flow.amplitude * to_pool, flow.omega * mean, flow.phase
        )
    edges = flow.edges / mean
    if flow.slope.any():
        return pools.Curve(lambda t: flow.rate(t * mean) * to_pool, edges[np.isfinite(edges)])
    return pools.Piecewise(edges.tolist(), (flow.base * to_pool).tolist())


def coxian_of(scenario: Scenario) -> Any:
    """Return the phases of service, the mean being the unit of time; None for another law."""
    from ..theory import pools

    service = scenario.service
    if isinstance(service, Exponential):
        return pools.Coxian((1.0,))
    if service.law == "coxian":
        mean = scenario.mean_service
        return pools.Coxian(
            tuple(rate * mean for rate in service.rates),
            tuple(service.probabilities),
        )
    return None


def _chosen(
    scenario: Scenario, policies: Iterable[Written] | Written | None, known: tuple[str, ...]
) -> list[PolicySpec]:
    """Return the policies asked about; the scenario's own where their limit is known."""
    if isinstance(policies, str | PolicySpec | Mapping) or hasattr(policies, "choose"):
        policies = [policies]  # type: ignore[list-item]
    asked = list(policies or [])
    if asked:
        specs = [resolve(one) for one in asked]
        for spec in specs:
            if spec.policy.name not in known:
                raise PolicyMismatch(
                    f"no limit is known here of '{spec.label}' on servers of discipline "
                    f'"{scenario.servers.discipline}"; known are {", ".join(known)}'
                )
    else:
        own = [resolve(table) for table in scenario.policies]
        specs = [spec for spec in own if spec.policy.name in known]
        if not specs:
            pool = scenario.servers.discipline == "pool"
            usual = ["learning-threshold"] if pool else ["jsq", "jiq", "jsq-d", "round-robin",
                                                         "random"]  # fmt: skip
            specs = [resolve(name) for name in usual]
    unique_labels(specs)
    for spec in specs:
        spec.check(scenario.servers.count)
    return specs


def _pool_answer(
    scenario: Scenario, spec: PolicySpec, load: float | None, run: Simulation | None
) -> PoolAnswer:
    from ..theory import pools

    params = dict(spec.params)
    name = spec.policy.name
    kept = {key: params[key] for key in ("level", "step", "alpha", "max_load", "rule", "d")
            if key in params}  # fmt: skip
    if name == "total-threshold":
        name, kept = "learning-threshold", {"step": params["step"], "rule": "total"}
    by_tokens = name == "learning-threshold" and kept.get("rule") != "total"
    if load is not None and by_tokens and kept.get("alpha") is None is kept.get("max_load"):
        kept["max_load"] = max(10.0, float(np.ceil(load)))
    start = scenario.start_lengths()
    shares = np.bincount(start) / start.size
    theory = pools.describe(
        load if load is not None else rate_of(scenario),
        scenario.servers.count,
        name,
        start=shares,
        service=coxian_of(scenario),
        limit=scenario.servers.limit,
        horizon=None if load is not None else _horizon(scenario),
        **kept,
    )
    return PoolAnswer(spec.label, spec, theory, scenario.mean_service, run)


def _horizon(scenario: Scenario) -> float | None:
    end = min(scenario.horizon or np.inf, scenario.traffic_end)
    return None if end == np.inf else end / scenario.mean_service


def _queue_answer(
    scenario: Scenario, spec: PolicySpec, load: float | None, run: Simulation | None
) -> QueueAnswer:
    from ..theory.sparse import baselines, equilibrium

    assert load is not None
    name, params = spec.policy.name, dict(spec.params)
    unit, n = scenario.mean_service, scenario.servers.count
    if name in SPARSE:
        idle_only, mode = bool(params["idle_only"]), str(params["mode"])
        rest = equilibrium(name, load, float(params["delta"]), idle_only=idle_only)
        return QueueAnswer(
            spec.label, spec, rest.mean_wait, rest.lengths, rest.messages(mode), False,
            rest.error, unit, run,
        )  # fmt: skip
    found = {
        "random": lambda: baselines.random(load),
        "round-robin": lambda: baselines.round_robin(load, n),
        "jsq-d": lambda: baselines.jsq_d(load, int(params["d"])),
        "jsq": lambda: baselines.jsq(load),
        "jiq": lambda: baselines.jiq(load),
        "sparsified-jiq": lambda: baselines.sparsified_jiq(load, float(params["p"])),
    }[name]()
    return QueueAnswer(
        spec.label, spec, found.mean_wait, found.lengths, found.messages,
        name in ("random", "round-robin"), 0.0, unit, run,
    )  # fmt: skip


def _none(value: float | None) -> float:
    """Return a distance; 0 for what is only rounding."""
    return 0.0 if value is None or value < 1e-9 else value


def _q(occupancy: np.ndarray) -> np.ndarray:
    """Return q from level 0 on, of a result's occupancy."""
    return np.concatenate(([1.0], np.asarray(occupancy, float)))


def _shares(occupancy: np.ndarray) -> str:
    """The fraction of pools at each level, in words."""
    x = occupancy - np.append(occupancy[1:], 0.0)
    named = [i for i in range(x.size) if x[i] >= LEAST_SHARE]
    if len(named) > 8:
        least, most = named[0], named[-1]
        top = int(np.argmax(x))
        return f"pools with {least} to {most} tasks, most often {top} ({100 * x[top]:.1f} %)"
    return ", ".join(f"{100 * x[i]:.1f} % of the pools at {i}" if j == 0 else
                     f"{100 * x[i]:.1f} % at {i}" for j, i in enumerate(named))  # fmt: skip


def _row(what: str, text: str, indent: int = 2) -> list[str]:
    return _wrapped(text, " " * indent + f"{what:<{15 - indent}}")


def _wrapped(text: str, lead: str = "") -> list[str]:
    lines = textwrap.wrap(
        text.replace(" %", "\N{NO-BREAK SPACE}%"),
        WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
