"""The threshold that learns the load, from its tokens alone.

Dispatching and messages are those of threshold.py. At each arrival, from the tokens held just
before it, with n servers:

    at most one yellow token              up:   l <- l + step   (nearly all have h or more)
    else n - green <= alpha n, l > 0      down: l <- l - step   (at most alpha n have l or more)

A change is announced to all servers and each answers with its color. What the dispatcher keeps
meanwhile are the promises that stay true: going up, yellow becomes green; going down, green
becomes yellow. If alpha (K + 1) > load for K = floor(load), the threshold settles at K, the best
one; alpha = max_load / (max_load + 1) keeps it at K or K + 1 for every load up to max_load.

`rule = "program"` is the variant of the authors' own program, for reproducing their figures: it
looks after the task was placed, goes up if every server has h or more, and then down if at most
alpha n + 1 have l or more. The two agree up to one server.
Source: Goldsztajn et al. (2022), section 4; steps beyond 1: Goldsztajn et al. (2025).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .base import Foresight, Param, Policy, Ranked, below_level
from .levels import Bands
from .spec import PolicySpec, spec
from .threshold import (
    color,
    expect,
    foresee,
    keep_token,
    rank_of_token,
    take_token,
    tell_finish,
    tell_start,
    tell_state,
)

MAX_LOAD = 10.0  # what alpha is made for when nothing is said


class LearningParams(NamedTuple):
    step: int
    most: int  # alpha n, whole: go down if at most this many servers have l tasks or more
    program: bool  # whether the rule of the authors' program is in force


class LearningState(NamedTuple):
    par: LearningParams
    bands: Bands  # as in threshold.py
    known: np.ndarray  # int64[3]: the threshold; green and yellow tokens before this arrival


def alpha_of(servers, alpha=None, max_load=None):
    """Return the alpha in force: the given one, else from `max_load`, else from a load of 10.

    A default never exceeds 1 - 2/n: from 1 - 1/n on an increase is undone at once.
    """
    if alpha is not None:
        return alpha
    if max_load is not None:
        return max_load / (max_load + 1)
    return max(0.0, min(MAX_LOAD / (MAX_LOAD + 1), 1 - 2 / servers))


def init(bounds, speeds, announcement, alpha=None, max_load=None, step=1, level=0, rule="tokens"):
    level = level if announcement is None else int(announcement)
    params = params_for(len(bounds), alpha, max_load, step, rule)
    known = np.array([level, 0, 0], np.int64)
    return LearningState(params, color(bounds, level, step), known), level


def params_for(n, alpha, max_load, step, rule):
    most = math.floor(alpha_of(n, alpha, max_load) * n + 1e-9)  # 0.29 * 100 is below 29
    return LearningParams(step, most, rule == "program")


def choose(state, fleet, rng):
    state.known[1] = state.bands.end[0]
    state.known[2] = state.bands.end[1]
    return take_token(state.bands, rng)


def hear(state, server, bound):
    keep_token(state.bands, server, bound, state.known[0], state.par.step)


def go_up(state):
    end = state.bands.end
    end[0] = end[1]  # fewer than the old h, which is the new l
    state.known[0] += state.par.step


def go_down(state):
    end = state.bands.end
    end[1] = end[0]  # fewer than the old l, which is the new h
    end[0] = 0
    state.known[0] -= state.par.step


def adapt(state):
    n, step, most = state.bands.size, state.par.step, state.par.most
    if n < 2:  # one server always has "at most one yellow token": there is nothing to learn
        return state.known[0]
    if state.par.program:
        if state.bands.end[1] == 0:
            go_up(state)
        if state.known[0] >= step and n - state.bands.end[0] <= most + 1:
            go_down(state)
    elif state.known[2] <= 1:
        go_up(state)
    elif state.known[0] >= step and n - state.known[1] <= most:
        go_down(state)
    return state.known[0]


def init_ranked(size, alpha=None, max_load=None, step=1, level=0, rule="tokens"):
    nobody = np.zeros(0, np.int32)
    bands = Bands(nobody, nobody, np.array([0, 0, size], np.int64), size)
    known = np.array([level, 0, 0], np.int64)
    return LearningState(params_for(size, alpha, max_load, step, rule), bands, known), level


def see(state, ranks):
    """Bring the numbers of tokens up to date."""
    level = state.known[0]
    state.bands.end[0] = below_level(ranks, level)
    state.bands.end[1] = below_level(ranks, level + state.par.step)


def choose_rank(state, ranks, rng):
    see(state, ranks)
    state.known[1] = state.bands.end[0]
    state.known[2] = state.bands.end[1]
    return rank_of_token(ranks, state.known[0], state.par.step, rng)


def check(servers, alpha, max_load, step, level, rule):
    if servers < 2:
        return "one server leaves nothing to balance or learn; use 2 or more"
    if alpha is not None and max_load is not None:
        return "alpha and max_load say the same thing twice; give one of them"
    used = alpha_of(servers, alpha, max_load)
    if used >= 1 - 1 / servers:
        most = (servers - 1) / servers
        return (
            f"alpha = {used:.4g} >= 1 - 1/n = {most:.4g} for {servers} servers: an increase "
            f"would be undone at once; use a smaller alpha or max_load"
        )
    return None


POLICY = Policy(
    "learning-threshold",
    init,
    choose,
    hear,
    adapt,
    tell_start=tell_start,
    tell_finish=tell_finish,
    tell_state=tell_state,
    about="the threshold policy with a threshold that learns the load",
    source="Goldsztajn et al. 2022, section 4",
    cost="at most 2 messages per task, and an answer per server when the threshold moves",
    memory=2,
    params={
        "alpha": Param(None, float, "go down at this fraction of servers", above=0, below=1),
        "max_load": Param(None, float, "the largest load to be learnt; sets alpha", above=0),
        "step": Param(1, int, "how far the threshold moves, and h = l + step", least=1),
        "level": Param(0, int, "the first threshold", least=0),
        "rule": Param(
            "tokens", str, "the paper's rule, or its program's", choices=("tokens", "program")
        ),
    },
    announces=True,
    check=check,
    foresight=Foresight(foresee, expect),
    ranked=Ranked(choose_rank, init_ranked, see),
)


def LearningThreshold(
    alpha: float | None = None,
    max_load: float | None = None,
    step: int = 1,
    level: int = 0,
    rule: str = "tokens",
) -> PolicySpec:
    """The threshold policy with a threshold that learns the load; `alpha` in (0, 1 - 1/n)."""
    return spec(POLICY, alpha=alpha, max_load=max_load, step=step, level=level, rule=rule)
