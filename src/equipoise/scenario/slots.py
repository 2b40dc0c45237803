"""Slotted time: how many tasks come in a slot, and how many a server could finish in one.

A slot lasts one second. All tasks of a slot go to one server, chosen on the lengths at its
beginning; then every server finishes up to as many tasks as it could. `jobs` names a law on the
whole numbers:

    bernoulli      0 or 1
    binomial       of `trials` chances
    poisson
    deterministic  always the mean, a whole number
    geometric      0, 1, 2, ..., each a fixed factor rarer than the one before
    table          `values` with `probabilities`

A server's law has its speed as mean. Services of different servers are independent, unless
`up` says how often a slot is good at all (all servers share it: in a bad slot nobody finishes
anything), or `rows` lists joint outcomes: {probability = 0.3, services = [1, 0, 2]}.
Source: Hurtado-Lange and Maguluri (2021), Oper. Res. Lett. 49(4), section 2.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise.scenario.base import Number, Part, Whole
from equipoise.scenario.mistakes import mistake

Positive = Annotated[Number, Field(gt=0)]
Nonnegative = Annotated[Number, Field(ge=0)]
Kind = Literal["bernoulli", "binomial", "poisson", "deterministic", "geometric", "table"]
TAIL = 1e-18  # probability beyond which a law is cut off
CLOSE = 1e-9  # how far from 1 probabilities may sum


class _Jobs(Part):
    """A law on the whole numbers; its mean comes from elsewhere, or from the table."""

    jobs: Kind
    trials: Annotated[Whole, Field(ge=1)] | None = None  # binomial
    values: tuple[Annotated[Whole, Field(ge=0)], ...] | None = None  # table
    probabilities: tuple[Nonnegative, ...] | None = None  # table

    @model_validator(mode="after")
    def _complete(self) -> Any:
        if getattr(self, "jobs", None) is None:  # of a service given as rows
            return self
        if (self.jobs == "binomial") != (self.trials is not None):
            raise mistake('goes with jobs = "binomial", which needs it', "trials")
        if self.jobs != "table":
            if self.values is not None or self.probabilities is not None:
                raise mistake('goes with jobs = "table" only', "values")
            return self
        if self.values is None or self.probabilities is None:
            raise mistake('jobs = "table" needs values and probabilities', "values")
        if len(self.values) != len(self.probabilities):
            raise mistake(
                f"{len(self.probabilities)} for {len(self.values)} values; one for each",
                "probabilities",
            )
        total = math.fsum(self.probabilities)
        if abs(total - 1) > CLOSE:
            raise mistake(f"sum to {total:.9g}; they must sum to 1", "probabilities")
        return self

    @property
    def table_mean(self) -> float | None:
        """The mean of a table; None for the other laws."""
        if self.values is None or self.probabilities is None:
            return None
        return float(np.dot(self.values, self.probabilities))

    def wrong_mean(self, mean: float) -> str | None:
        """Say why this law cannot have that mean; None if it can."""
        if self.jobs == "bernoulli" and mean > 1:
            return f'a mean of {mean:g} is more than jobs = "bernoulli" can have, 1'
        if self.trials is not None and mean > self.trials:
            return f"a mean of {mean:g} is more than trials = {self.trials}"
        if self.jobs == "deterministic" and mean != round(mean):
            return f'a mean of {mean:g} is not a whole number, as jobs = "deterministic" must be'
        own = self.table_mean
        if own is not None and abs(own - mean) > CLOSE * max(1, mean):
            return f"the table has mean {own:g}, but {mean:g} is asked for"
        return None

    def pmf(self, mean: float) -> tuple[np.ndarray, np.ndarray]:
        """Return (values int64[k], probabilities float64[k]) with this mean; tails below 1e-18."""
        if self.values is not None:
            return np.array(self.values, np.int64), np.array(self.probabilities)
        if self.jobs == "deterministic":
            return np.array([round(mean)]), np.ones(1)
        if self.jobs == "bernoulli":
            return np.arange(2), np.array([1 - mean, mean])
        if self.trials is not None:
            return np.arange(self.trials + 1), _binomial(self.trials, mean / self.trials)
        return _endless(self.jobs, mean)


def _binomial(trials: int, p: float) -> np.ndarray:
    if p in (0.0, 1.0):
        return np.eye(trials + 1)[trials if p else 0]
    k = np.arange(trials + 1)
    choose = np.array([math.lgamma(trials + 1) - math.lgamma(i + 1) - math.lgamma(trials - i + 1)
                       for i in k])  # fmt: skip
    return np.exp(choose + k * math.log(p) + (trials - k) * math.log1p(-p))


def _endless(kind: str, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """The Poisson and the geometric law, up to a tail that no double can tell from nothing."""
    most = int(mean + 20 * math.sqrt(mean) + 60)
    if kind == "geometric":
        most = max(1, int(math.log(TAIL) / math.log(mean / (1 + mean)))) if mean > 0 else 1
    k = np.arange(most + 1)
    if kind == "geometric":
        probability = (mean / (1 + mean)) ** k / (1 + mean)
    else:
        log = k * math.log(mean) - mean - np.array([math.lgamma(i + 1) for i in k])
        probability = np.exp(log)
    return k, probability / probability.sum()


class SlotArrivals(_Jobs):
    """The tasks that come in a slot, all servers together; give `mean`, or `load`, or a table."""

    law: Literal["slots"] = "slots"
    mean: Positive | None = None  # tasks per slot
    load: Positive | None = None  # fraction of what the servers can finish
    scale: Positive = 1.0

    @model_validator(mode="after")
    def _one_of_two(self) -> Any:
        given = (self.mean is not None) + (self.load is not None)
        if self.jobs == "table" and given:
            raise mistake("a table has its own mean; leave mean and load out", "mean")
        if self.jobs != "table" and given != 1:
            raise mistake("give either mean (tasks per slot) or load (fraction of the capacity)")
        return self


class Outcome(Part):
    """What all servers could finish in a slot, with its probability."""

    probability: Annotated[Number, Field(ge=0, le=1)]
    services: tuple[Annotated[Whole, Field(ge=0)], ...]


class SlotService(_Jobs):
    """How many tasks a server could finish in a slot, its speed on average.

    `up` is the fraction of good slots, shared by all; in them means are speed / up. `rows` lists
    the joint outcomes instead, and then `jobs` is left out.
    """

    law: Literal["slots"] = "slots"
    jobs: Kind | None = None  # type: ignore[assignment]
    up: Annotated[Number, Field(gt=0, le=1)] = 1.0
    rows: tuple[Outcome, ...] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Any:
        if self.rows is None:
            if self.jobs is None:
                raise mistake(
                    'missing; how many a server could finish, e.g. jobs = "bernoulli"', "jobs"
                )
            return self
        if self.jobs is not None or self.up != 1.0:
            raise mistake("say it all; leave jobs and up out", "rows")
        total = math.fsum(row.probability for row in self.rows)
        if abs(total - 1) > CLOSE:
            raise mistake(f"their probabilities sum to {total:.9g}; they must sum to 1", "rows")
        return self

    def wrong_speeds(self, speeds: np.ndarray) -> str | None:
        """Say why servers of these speeds, float64[n], cannot have this law; None if they can."""
        if self.rows is not None:
            for i, row in enumerate(self.rows):
                if len(row.services) != len(speeds):
                    return (
                        f"rows #{i + 1} has {len(row.services)} services for {len(speeds)} servers"
                    )
            means = self.row_means()
            far = np.abs(means - speeds) > CLOSE * np.maximum(1, speeds)
            for server in np.flatnonzero(far).tolist():
                has, given = speeds[server], means[server]
                return f"server {server} has speed {has:g}, but the rows give it {given:g}"
            return None
        for speed in np.unique(speeds):
            wrong = self.wrong_mean(float(speed) / self.up)
            if wrong:
                return wrong
        return None

    def row_table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (probabilities float64[rows], services int64[rows, n])."""
        assert self.rows is not None
        return (
            np.array([row.probability for row in self.rows]),
            np.array([row.services for row in self.rows], np.int64),
        )

    def row_means(self) -> np.ndarray:
        """Return the mean service of each server by the rows, float64[n]."""
        probability, services = self.row_table()
        return probability @ services

    def total_variance(self, speeds: np.ndarray) -> float:
        """Return the variance of what all servers could finish in a slot, 1' Sigma 1."""
        if self.rows is not None:
            probability, services = self.row_table()
            total = services.sum(axis=1)
            return float(probability @ total**2 - (probability @ total) ** 2)
        own = 0.0
        for speed, count in zip(*np.unique(speeds, return_counts=True), strict=True):
            values, probability = self.pmf(float(speed) / self.up)
            mean = float(probability @ values)
            own += count * (float(probability @ values**2) - mean**2)
        whole = float(np.sum(speeds)) / self.up  # in a good slot
        return self.up * own + self.up * (1 - self.up) * whole**2
