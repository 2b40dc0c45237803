"""Table: events per second of the kernels, against the plain loop and SimPy doing the same work.

Pools hold 5.5 tasks each, queues are busy 0.9 of the time. A kernel's time is that of a whole
replication, its set-up included; that of the others is their loop alone (simpy_models.py). From
100,000 servers on the others are left out: SimPy alone takes 15 s to set up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from bench.simpy_models import (
    UNIT,
    Measured,
    Work,
    lognormal,
    plain_loop,
    with_callbacks,
    with_processes,
)
from bench.timing import run_kernel
from equipoise.policies import PolicySpec, resolve
from equipoise.scenario import Scenario

REPETITIONS = 3
OTHERS = (plain_loop, with_callbacks, with_processes)  # in the order of the columns
TASKS = 20_000  # of a repetition in plain Python or SimPy
ALPHA = (("alpha", 10 / 11),)


@dataclass(frozen=True)
class Row:
    """One work, and how many tasks of it a repetition of the kernel does."""

    kernel: str
    work: Work
    tasks: int
    law: str = "exponential"
    slow: int = REPETITIONS  # of the models in plain Python

    @property
    def policy(self) -> PolicySpec:
        """The policy as the package has it; its alpha is the default here."""
        params = {key: value for key, value in self.work.params if key != "alpha"}
        return resolve({"name": self.work.policy, **params})

    @property
    def label(self) -> str:
        """What the row is about: kernel, fleet, law, policy."""
        fleet = f"{self.work.servers:,} {'pools' if self.work.pools else 'queues'}"
        return f"{self.kernel:<11}{fleet:<15}{self.law:<13}{self.policy.label:<22}"

    def scenario(self) -> Scenario:
        """The same work for a kernel."""
        law = "lognormal(mean=1, scv=4)" if self.law == "lognormal" else self.law
        return Scenario.simple(
            servers=self.work.servers,
            discipline=self.work.discipline,
            load=self.work.load,
            service=law,
            start=self.work.start(),
            tasks=self.tasks,
            replications=1,
        )


def rows() -> Iterable[Row]:
    """The works of the table."""
    level = {"pool": (("level", 5),), "fcfs": (("level", 1),)}
    some = ("jsq", "threshold", "learning-threshold")

    def work(policy: str, servers: int, discipline: str, law: str = "exponential") -> Work:
        params = {"threshold": level[discipline], "learning-threshold": ALPHA}.get(policy, ())
        load = 5.5 if discipline == "pool" else 0.9
        service = lognormal(1.0, 4.0) if law == "lognormal" else UNIT
        return Work(policy, servers, discipline, load, service, params)

    for policy in some:
        yield Row("memoryless", work(policy, 500, "pool"), 3_000_000)
    for policy in some:
        yield Row("memoryless", work(policy, 100_000, "pool"), 2_000_000, slow=0)
    for policy in ("jsq", "jsq-d", *some[1:]):
        yield Row("memoryless", work(policy, 1000, "fcfs"), 3_000_000)
    yield Row("events", work("jsq-d", 1000, "fcfs", "lognormal"), 1_000_000, "lognormal")
    for policy in some[:2]:
        yield Row("events", work(policy, 500, "pool"), 1_000_000)


def compare_kernels() -> None:
    """Print the table."""
    print(f"{'':61}{'million':>9}{'ns per':>9}      times as fast as")
    print(
        f"{'kernel':<11}{'servers':<15}{'service':<13}{'policy':<22}{'events/s':>9}{'event':>9}"
        f"{'plain loop':>13}{'callbacks':>12}{'processes':>12}"
    )
    for one in rows():
        own, ratios = measure(one)
        print(
            f"{one.label}{own / 1e6:>9.1f}{1e9 / own:>9.0f}"
            + "".join(f"{ratios[m.__name__]:>{13 if m is plain_loop else 12}}" for m in OTHERS),
            flush=True,
        )


def measure(one: Row) -> tuple[float, dict[str, str]]:
    """Return events per second of the kernel, and the median of its ratio to each other model."""
    scenario = one.scenario()
    run_kernel(one.scenario(), one.policy, one.kernel)  # compiles, or finds it on disk
    own: list[float] = []
    ratios: dict[str, list[float]] = {model.__name__: [] for model in OTHERS}
    for repetition in range(REPETITIONS):
        own.append(run_kernel(scenario, one.policy, one.kernel))
        if repetition < one.slow:
            for model in OTHERS:
                done: Measured = model(TASKS, one.work, seed=repetition)
                ratios[model.__name__].append(own[-1] / done.rate)
    shown = {name: f"{median(values):,.0f}" if values else "" for name, values in ratios.items()}
    return median(own), shown
