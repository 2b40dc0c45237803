"""Service times made of exponential phases: Coxian and phase-type laws.

A phase-type time is the time until a Markov chain with generator T between its phases is absorbed,
started in phase i with probability a_i. Its moments are

    E S = a (-T)^-1 1,    E S^2 = 2 a T^-2 1.

A Coxian law passes the phases in order and ends after phase k with probability 1 - p_k; it is the
phase-type law with T[k, k] = -mu_k, T[k, k + 1] = p_k mu_k, started in the first. Any law can be
approached by such ones. Samples are those of the chain itself, all tasks at once.
Source: Neuts (1981), Matrix-Geometric Solutions in Stochastic Models, chapter 2.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from equipoise.scenario.base import Number, Part
from equipoise.scenario.mistakes import Mistake, Mistakes, mistake

Positive = Annotated[Number, Field(gt=0)]
Chance = Annotated[Number, Field(ge=0, le=1)]
ROUNDING = 1e-9  # how far sums of what a file says may be off, relative


class Moments(NamedTuple):
    mean: float  # s
    scv: float  # variance / mean^2


class Phases(NamedTuple):
    """A chain that is absorbed in the end."""

    initial: np.ndarray  # float64[phases], where it starts
    rates: np.ndarray  # float64[phases], per second, of leaving each phase
    steps: np.ndarray  # float64[phases, phases], chances of the next phase, added up along rows

    @classmethod
    def of(cls, initial: np.ndarray, generator: np.ndarray) -> Phases:
        """Return the chain with this generator, float64[phases, phases] per second."""
        rates = -np.diag(generator)
        between = generator / rates[:, None]
        np.fill_diagonal(between, 0.0)
        steps = between.cumsum(axis=1)
        # where a phase is never the last one, rounding must not make it so
        full = steps[:, -1] > 1 - ROUNDING
        last = steps.shape[1] - 1 - (between[:, ::-1] > 0).argmax(axis=1)
        for phase in np.flatnonzero(full):
            steps[phase, last[phase] :] = 1.0
        return cls(initial, rates, steps)

    def moments(self) -> Moments:
        """Return the mean and the scv of the time to absorption."""
        between = np.diff(self.steps, axis=1, prepend=0.0)
        # -T x = 1 and -T y = x, each row divided by the rate of its phase
        one = np.linalg.solve(np.eye(self.rates.size) - between, 1.0 / self.rates)
        two = np.linalg.solve(np.eye(self.rates.size) - between, one / self.rates)
        mean = float(self.initial @ one)
        return Moments(mean, max(0.0, 2 * float(self.initial @ two) / mean**2 - 1))

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        phase = np.searchsorted(self.initial.cumsum()[:-1], generator.random(k), side="right")
        times = np.zeros(k)
        going = np.arange(k)
        while going.size:
            times[going] += generator.standard_exponential(going.size) / self.rates[phase]
            drawn = generator.random(going.size)
            phase = (self.steps[phase] <= drawn[:, None]).sum(axis=1)
            more = phase < self.rates.size
            going, phase = going[more], phase[more]
        return times


class Coxian(Part):
    """Exponential phases one after the other, with a chance to end after each.

    `rates` (per second) of the phases, and `probabilities` of going on to the next one: as many
    as phases, less one.
    """

    law: Literal["coxian"] = "coxian"
    rates: Annotated[tuple[Positive, ...], Field(min_length=1)]
    probabilities: tuple[Chance, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> Coxian:
        given, phases = len(self.probabilities), len(self.rates)
        if given != phases - 1:
            raise mistake(
                f"{given} for {phases} rates; there must be {phases - 1}, the chance to go on "
                "after each phase but the last",
                "probabilities",
            )
        return self

    @cached_property
    def phases(self) -> Phases:
        """The same as a chain of phases."""
        rates = np.array(self.rates)
        generator = np.diag(-rates)
        generator += np.diag(np.array(self.probabilities) * rates[:-1], k=1)
        initial = np.zeros(rates.size)
        initial[0] = 1.0
        return Phases.of(initial, generator)

    def moments(self) -> Moments:
        return self.phases.moments()

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        return self.phases.sample(generator, k)


class PhaseType(Part):
    """The time a Markov chain takes to be absorbed.

    `initial` are the chances to start in each phase. `generator` has a row for each phase: the
    rates (per second) of going to each other phase, and on the diagonal minus the rate of leaving;
    what is missing to a sum of 0 is the rate of ending.
    """

    law: Literal["phase-type"] = "phase-type"
    initial: Annotated[tuple[Chance, ...], Field(min_length=1)]
    generator: Annotated[tuple[tuple[Number, ...], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits(self) -> PhaseType:
        wrong = list(self._wrong_shape()) or list(self._wrong_rates())
        if wrong:
            raise Mistakes(wrong)
        stuck = self._stuck()
        if stuck is not None:
            raise mistake(
                f"from phase #{stuck + 1} the service never ends; some phase that follows must "
                "have a row whose sum is below 0",
                "generator",
            )
        return self

    def _wrong_shape(self) -> list[Mistake]:
        phases = len(self.initial)
        if len(self.generator) != phases:
            rows = len(self.generator)
            return [
                Mistake(
                    ("generator",),
                    f"{rows} row{'s' * (rows != 1)} for {phases} initial probabilities; there must "
                    "be as many",
                )
            ]
        return [
            Mistake(
                ("generator", i), f"{len(row)} rates; the matrix is square, so it needs {phases}"
            )
            for i, row in enumerate(self.generator)
            if len(row) != phases
        ]

    def _wrong_rates(self) -> list[Mistake]:
        wrong = []
        if abs(sum(self.initial) - 1) > ROUNDING:
            wrong.append(Mistake(("initial",), f"their sum is {sum(self.initial):g}; it must be 1"))
        for i, row in enumerate(self.generator):
            where: tuple[str | int, ...] = ("generator", i)
            if row[i] >= 0:
                what = f"{row[i]:g} on the diagonal; minus the rate of leaving must be below 0"
                wrong.append(Mistake(where, what))
            elif min([*row[:i], *row[i + 1 :]], default=0.0) < 0:
                what = "a rate to another phase is negative; it must be at least 0"
                wrong.append(Mistake(where, what))
            elif sum(row) > -ROUNDING * row[i]:
                what = f"the sum is {sum(row):g}; it must be at most 0, minus the rate of ending"
                wrong.append(Mistake(where, what))
        return wrong

    def _stuck(self) -> int | None:
        """Return the first phase from which the end cannot be reached, None if there is none."""
        steps = self.phases.steps
        follows = np.diff(steps, axis=1, prepend=0.0) > 0
        ends = steps[:, -1] < 1.0
        for _ in range(ends.size):
            ends = ends | (follows & ends).any(axis=1)
        stuck = np.flatnonzero(~ends)
        return int(stuck[0]) if stuck.size else None

    @cached_property
    def phases(self) -> Phases:
        """The chain."""
        return Phases.of(np.array(self.initial), np.array(self.generator))

    def moments(self) -> Moments:
        return self.phases.moments()

    def sample(self, generator: np.random.Generator, k: int) -> np.ndarray:
        """Return float64[k] seconds."""
        return self.phases.sample(generator, k)
