"""What every scheme of sparse feedback has in common: its names, its messages, its equilibrium."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import numpy as np

from ...errors import EquipoiseError, UnstableError

SCHEMES = ("sujsq-det", "sujsq-exp", "aujsq-det", "aujsq-exp")
MODES = ("pull", "push")  # a server tells by its own clock; it is asked, and answers


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Where a fleet without end comes to rest under one scheme; time in mean service times."""

    scheme: str  # one of SCHEMES
    load: float
    delta: float  # updates per server and mean service time
    idle_only: bool  # whether only a server that is idle tells
    lengths: np.ndarray = field(repr=False)  # float64[levels], part of servers with i tasks
    idle_told: float  # part of servers found idle when it is their turn to tell
    error: float  # how far mean_wait may be off; the method says in which sense
    method: str

    @property
    def mean_tasks(self) -> float:
        """Mean number of tasks per server, the one in service included, over time."""
        return float(np.arange(self.lengths.size) @ self.lengths)

    @property
    def mean_wait(self) -> float:
        """Mean wait before service, in mean service times (Little's law)."""
        return max(0.0, self.mean_tasks / self.load - 1)

    def messages(self, mode: str = "pull") -> float:
        """Return the messages per task, see `messages_per_task`."""
        return messages_per_task(
            self.load, self.delta, mode, idle_told=self.idle_told if self.idle_only else None
        )


def messages_per_task(
    load: float, delta: float, mode: str = "pull", *, idle_told: float | None = None
) -> float:
    """Return how many messages the updates cost per task.

    Each server has its turn `delta` times per mean service time, in which `load` tasks come for it:
    delta / load turns per task. With mode "pull" the server tells by its own clock, one message;
    with "push" it is asked first, two. Where only idle servers tell, `idle_told` is the part of
    them found idle at their turn: one message in so many turns, and with "push" the question in
    all of them, since the dispatcher cannot know who is idle.

    Source: van der Boor et al. 2019, section 1; for idle servers worked out here.

    Raises
    ------
    UnstableError
        If load >= 1.
    EquipoiseError
        If load <= 0, delta <= 0, the mode is unknown or `idle_told` is no fraction.
    """
    load, delta = check_load(load), check_delta(delta)
    if mode not in MODES:
        raise EquipoiseError(f"no mode is called {mode!r}; the modes are: {', '.join(MODES)}")
    told = 1.0 if idle_told is None else check_fraction(idle_told, "idle_told")
    asked = 1.0 if mode == "push" else 0.0
    return delta / load * (asked + told)


def check_scheme(scheme: str) -> str:
    """Return a scheme's name if it is one."""
    if scheme not in SCHEMES:
        raise EquipoiseError(f"no scheme is called {scheme!r}; they are: {', '.join(SCHEMES)}")
    return scheme


def check_load(load: float) -> float:
    """Return the load as a number if it is one, > 0 and < 1."""
    load = _number(load, "load")
    if load >= 1:
        raise UnstableError(f"load = {load:g} >= 1: work arrives faster than the servers can do it")
    if not load > 0:
        raise EquipoiseError(f"load = {load:g} must be more than 0 and less than 1")
    return load


def check_delta(delta: float) -> float:
    """Return the update rate as a number if it is one, > 0 and finite."""
    delta = _number(delta, "delta")
    if not (delta > 0 and np.isfinite(delta)):
        raise EquipoiseError(
            f"delta = {delta:g} must be more than 0: updates per server and mean service time"
        )
    return delta


def check_fraction(value: float, name: str) -> float:
    """Return a probability or part as a number if it is one, from 0 to 1."""
    value = _number(value, name)
    if not 0 <= value <= 1:
        raise EquipoiseError(f"{name} = {value:g} must be at least 0 and at most 1")
    return value


def check_count(value: int, name: str) -> int:
    """Return a whole number >= 1."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise EquipoiseError(f"{name} = {value} must be a whole number >= 1")
    return count


def check_law(lengths: object) -> np.ndarray:
    """Return a law of lengths as float64[levels]: parts >= 0 of sum 1 (to 1e-9, then exactly)."""
    try:
        law = np.array(lengths, dtype=float)
    except (TypeError, ValueError):
        law = np.empty(0)
    good = law.ndim == 1 and law.size and np.isfinite(law).all() and law.min() >= 0
    if not good or abs(law.sum() - 1) > 1e-9:
        raise EquipoiseError("a law of lengths is a list of parts >= 0 with sum 1, for 0, 1, ...")
    return law / law.sum()


def _number(value: float, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise EquipoiseError(f"{name} = {value!r} must be a number") from None
