"""Several dispatchers in the kernels: one of them is one, small chains, loops written apart."""

import dataclasses
import heapq
import itertools
from collections import deque

import numba
import numpy as np
import pytest
from generator import Generator
from hypothesis import given
from hypothesis import strategies as st
from runs import assert_mean, assert_same, cut, run

from equipoise import Scenario, resolve
from equipoise.errors import EquipoiseError, PolicyMismatch, TraceError
from equipoise.policies.dispatchers import make_dispatchers, make_shared_steps
from equipoise.policies.steps import ANNOUNCEMENTS, CHANGES, MESSAGES, make_steps
from equipoise.rng import ARRIVALS_SEED, SERVICE_SEED, SPLIT_SEED, make_rng, seeds
from equipoise.scenario.dispatchers import Dispatchers
from equipoise.sim.events import EventsDriver
from equipoise.sim.mail import DRAWN, IN_FLIGHT, make_mail, make_mail_steps
from equipoise.sim.run import pick_kernel, replicate

both_kernels = pytest.mark.parametrize("kernel", ["memoryless", "events"])
both = pytest.mark.parametrize("hear", ["all", "own"])


def scenario(dispatchers, hear="all", **how):
    keys = ("tasks", "duration", "seed", "start", "warm_up", "replications")
    run_keys = {key: how.pop(key) for key in keys if key in how}
    parts = {key: how.pop(key) for key in ("service", "messages", "arrivals") if key in how}
    load = how.pop("load", 0.8)
    return Scenario.from_dict(
        {
            "servers": {"count": 20, "discipline": "fcfs", **how},
            "arrivals": {"law": "poisson", "load": load},
            "service": {"law": "exponential"},
            "dispatchers": {"count": dispatchers, "hear": hear},
            "run": {"warm_up": 0.0, "replications": 1, **run_keys},
            **parts,
        }
    )


def same_path(one, other):
    assert one.trail.tolist() == other.trail.tolist()
    assert one.messages.sum(axis=0).tolist() == other.messages.sum(axis=0).tolist()
    assert one.sums.sum(axis=0) == pytest.approx(other.sums.sum(axis=0), rel=1e-9)
    assert one.last_change == other.last_change
    assert (one.responses.sum(axis=0) == other.responses.sum(axis=0)).all()


PATHS = [
    ("jsq", {"load": 0.9}),
    ("jiq", {"limit": 2, "load": 1.1}),
    ("learning-threshold(alpha=0.6)", {"discipline": "pool", "load": 2.5}),
    ("aujsq-exp(delta=0.5, mode=push)", {"discipline": "ps"}),
]


@pytest.mark.parametrize(("policy", "how"), PATHS)
@pytest.mark.parametrize(
    ("kernel", "hear", "delay"),
    [("memoryless", "all", 0.0), ("events", "all", 0.0), ("events", "own", 0.0),
     ("events", "all", 0.3)],
)  # fmt: skip
def test_one_dispatcher_takes_the_same_path_as_without(
    policy, how, kernel, hear, delay, monkeypatch
):
    """Driven as several that happen to be one: the same seed, the same numbers."""
    how = how | {"messages": {"delay": delay}, "duration": 200.0, "start": "balanced"}
    without = replicate(scenario(1, hear, **how), resolve(policy), 0, kernel=kernel, trail=9000)
    monkeypatch.setattr(Dispatchers, "several", True)

    within = replicate(scenario(1, hear, **how), resolve(policy), 0, kernel=kernel, trail=9000)

    assert without.events > 5000
    assert without.messages.sum() > 1000
    same_path(without, within)


def test_one_dispatcher_is_the_default():
    without = scenario(1).to_dict()
    del without["arrivals"]["scale"]

    assert "dispatchers" not in without
    assert Scenario.from_dict(without) == scenario(1)
    assert scenario(3).to_dict()["dispatchers"] == {"count": 3, "hear": "all"}
    assert Scenario.from_dict(scenario(3, "own").to_dict()) == scenario(3, "own")


class NoTime:
    """A law of delays that are all 0: the mail is there, and everything arrives at once."""

    def sample(self, generator, k):
        return np.zeros(k)


@dataclasses.dataclass
class Instant:
    """In the place of a [messages] table."""

    law: NoTime = dataclasses.field(default_factory=NoTime)


@pytest.mark.parametrize(("policy", "how"), PATHS[:3])
def test_delays_of_zero_change_nothing_for_three(policy, how):
    """The same choices, messages, announcements, times."""
    one = scenario(3, duration=200.0, **how)

    without = replicate(one, resolve(policy), 0, kernel="events", trail=50_000)
    within = replicate(
        one.model_copy(update={"messages": Instant()}),
        resolve(policy), 0, kernel="events", trail=50_000,
    )  # fmt: skip

    if "learning" in policy:
        assert without.messages.sum(axis=0)[CHANGES] > 10
    same_path(without, within)


@pytest.mark.parametrize(("policy", "how"), [PATHS[0], PATHS[2]])
@pytest.mark.parametrize(("hear", "delay"), [("all", 0.0), ("all", 0.3), ("own", 0.0)])
def test_the_path_does_not_depend_on_how_a_run_is_cut(policy, how, hear, delay):
    one = scenario(3, hear, duration=200.0, messages={"delay": delay}, start="balanced", **how)

    with cut(rows=1, stretches=1):
        whole = replicate(one, resolve(policy), 0, kernel="events", trail=50_000)
    with cut(rows=13, stretches=7):
        pieces = replicate(one, resolve(policy), 0, kernel="events", trail=50_000)

    same_path(whole, pieces)


@both
@pytest.mark.parametrize("policy", ["jsq", "jsq-d", "threshold(level=1)", "learning-threshold"])
def test_the_events_kernel_chooses_as_the_plain_steps_do(policy, hear):
    """Followed event by event: who gets each task is redrawn here, who leaves first came first."""
    n, m = 20, 3
    one, spec = scenario(m, hear, duration=60.0, load=0.9), resolve(policy)
    record = replicate(one, spec, 0, kernel="events", trail=3000)
    whose = one.task_split(seeds(one.run.seed, 0)[SPLIT_SEED]).take(3000)
    several = EventsDriver(one, spec, 0, 0).several
    world, steps = several.world, make_shared_steps(spec.policy, hear, drawn=False)

    queues, arrived = [deque() for _ in range(n)], 0
    for event in record.trail.tolist():
        if event >= 0:
            world.whose[0] = whose[arrived]
            arrived += 1
            assert steps.arrive(world) == event
            queues[event].append(int(world.whose[0]))
        else:
            world.whose[0] = queues[-1 - event].popleft()
            steps.depart(world, -1 - event)

    assert record.events == len(record.trail) > 1500
    assert np.bincount(whose[:arrived], minlength=m).min() > arrived / m * 0.8
    assert world.count.tolist() == record.messages.sum(axis=0).tolist()


def test_messages_are_counted_for_each_dispatcher():
    """jsq: each departure is told to each. By the clock: each is told, and asks if that is so."""
    jsq = replicate(scenario(3, duration=200.0), resolve("jsq"), 0, kernel="memoryless")
    own = replicate(scenario(3, "own", duration=200.0), resolve("jsq"), 0, kernel="events")
    pull, push = (
        replicate(scenario(3, duration=100.5), resolve(f"sujsq-det(mode={mode})"), 0, kernel=kernel)
        for mode, kernel in (("pull", "memoryless"), ("push", "events"))
    )

    leave, update = MESSAGES.index("leave"), MESSAGES.index("update")
    assert jsq.messages[:, leave].sum() == 3 * jsq.finished
    assert own.messages[:, leave].sum() == own.finished
    assert pull.messages[:, update].sum() == 100 * 20 * 3
    assert push.messages[:, update].sum() == 100 * 20 * 3 * 2


def followed(one, spec, delay):
    """The choices of dispatchers that hear all, each message being heard `delay` later."""
    streams = seeds(one.run.seed, 0)
    times, sizes = one.task_stream(streams[ARRIVALS_SEED], streams[SERVICE_SEED]).block()
    whose = one.task_split(streams[SPLIT_SEED]).take(len(times))
    worlds = EventsDriver(one, spec, 0, 0).several.worlds
    policy, steps = spec.policy, make_steps(spec.policy, True)
    length, free = worlds[0].length, np.zeros(len(worlds[0].length))
    events = [(time, 3, i, ("came", i)) for i, time in enumerate(times)]
    posted, choices = itertools.count(), []

    def say(tell, server, now):
        for k, w in enumerate(worlds):
            m = tell(int(length[server]), int(w.announcement[0]), w.state.par, w.server_rng)
            if m > 0:
                letter = ("told", k, server, m, int(w.sent[server]))
                heapq.heappush(events, (now + delay, 1, next(posted), letter))

    while events and events[0][0] <= one.horizon:
        now, *_, (what, *which) = heapq.heappop(events)
        if what == "told":
            k, server, m, received = which
            steps.hear_from(worlds[k], server, m, received)
        elif what == "left":
            (server,) = which
            length[server] -= 1
            say(policy.tell_finish, server, now)
        else:
            (i,) = which
            server = int(steps.send(worlds[whose[i]]))
            choices.append(server)
            free[server] = max(free[server], now) + sizes[i]
            heapq.heappush(events, (free[server], 2, i, ("left", server)))
            say(policy.tell_start, server, now)
    return choices


@pytest.mark.parametrize("policy", ["jsq", "threshold(level=1, step=2)", "jbt(r=2)"])
def test_late_messages_are_those_of_a_loop_with_a_heap(policy):
    """A letter to each dispatcher; the sends of its own since are added, of nobody else."""
    one = scenario(3, duration=80.0, load=0.9, messages={"delay": 0.3})
    spec = resolve(policy)

    record = replicate(one, spec, 0, kernel="events", trail=5000)
    choices = followed(one, spec, 0.3)

    assert len(choices) > 1000
    assert [event for event in record.trail.tolist() if event >= 0] == choices


@given(
    st.lists(st.integers(0, 4), min_size=3, max_size=6),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(-2, 1), st.integers(0), st.floats(0, 3)), max_size=60),
)
def test_each_dispatcher_announces_and_awaits_its_own_answers(lengths, m, script):
    """Until all servers have come back to it its value stays; those of others go on."""
    spec, n = resolve("learning-threshold(alpha=0.6)"), len(lengths)
    several = make_dispatchers(
        spec.policy, dict(spec.params), np.array(lengths), server_rng=make_rng(1),
        choice_rngs=[make_rng(k) for k in range(m)], coins=make_rng(9),
    )  # fmt: skip
    world, steps = several.world, make_mail_steps(spec.policy, several=True)
    mail = make_mail(n, int(world.announcement[0]), 4096, m)
    now = 0.0
    for move, which, delay in script:
        now += 0.25
        mail.counts[DRAWN] = 0
        mail = mail._replace(delay=np.resize([delay, 0.0, 1.0], m * (2 * n + 4)))
        before = [(int(w.announcement[0]), int(mail.awaited[k]))
                  for k, w in enumerate(several.worlds)]  # fmt: skip
        some = np.flatnonzero(world.length)
        if move < 0:
            world.whose[0] = which % m
            steps.arrive(world, mail, now)
        elif move == 0 and some.size:
            steps.depart(world, mail, int(some[which % some.size]), now)
        elif mail.counts[IN_FLIGHT]:
            now = max(now, float(mail.due[0]))
            steps.deliver(world, mail, now)

        for k, w in enumerate(several.worlds):
            if w.announcement[0] != before[k][0]:
                assert move < 0
                assert before[k][1] == 0
                assert k == which % m
            assert 0 <= mail.awaited[k] <= n
            if mail.awaited[k] == 0:
                assert (mail.known[k * n : (k + 1) * n] == w.announcement[0]).all()
        assert world.count[ANNOUNCEMENTS] == world.count[CHANGES]


# --- Small chains --------------------------------------------------------------------------------

TOLD = {  # (length after, level, high) -> band, None: silence
    "threshold": (
        lambda x, low, high: 0 if x < low else 1 if low < x < high else None,
        lambda x, low, high: 0 if x == low - 1 else 1 if x == high - 1 else None,
    ),
    "jiq": (lambda x, low, high: None, lambda x, low, high: 0 if x == 0 else None),
}


def chain_of_tokens(name, m, n, rate, limit, low=1, high=2):
    """Dispatchers with tokens that hear all, single servers of at most `limit` tasks.

    State: the lengths, and for each dispatcher the band of each server: 0 green, 1 yellow, 2 none;
    of jiq 0 known idle, 1 not. Returns (mean tasks a server, share lost, messages per task).
    """
    chain, worst = Generator(), 2 if name == "threshold" else 1
    on_start, on_finish = TOLD[name]
    first = ((0,) * n, ((0,) * n,) * m)
    said, seen, waiting = {}, {first}, [first]

    def tell(bands, server, band):
        if band is None:
            return bands
        return tuple((*b[:server], band, *b[server + 1 :]) for b in bands)

    def go(state, lengths, bands, rate, messages):
        there = (lengths, bands)
        chain.go(state, there, rate)
        said[state] = said.get(state, 0.0) + rate * messages
        if there not in seen:
            seen.add(there)
            waiting.append(there)

    while waiting:
        state = waiting.pop()
        lengths, bands = state
        for k, mine in enumerate(bands):
            lowest = [s for s in range(n) if mine[s] == min(mine)]
            for s in lowest:
                each = rate / m / len(lowest)
                if lengths[s] == limit:  # lost: what was promised before holds again
                    go(state, lengths, bands, each, 0)
                    continue
                longer = (*lengths[:s], lengths[s] + 1, *lengths[s + 1 :])
                used = (*mine[:s], min(mine[s] + 1, worst), *mine[s + 1 :])
                band = on_start(longer[s], low, high)
                after = tell((*bands[:k], used, *bands[k + 1 :]), s, band)
                go(state, longer, after, each, m * (band is not None))
        for s in range(n):
            if lengths[s]:
                shorter = (*lengths[:s], lengths[s] - 1, *lengths[s + 1 :])
                band = on_finish(shorter[s], low, high)
                go(state, shorter, tell(bands, s, band), 1.0, m * (band is not None))
    law = chain.stationary()
    tasks = sum(p * sum(lengths) for (lengths, _), p in law.items()) / n
    done = sum(p * sum(x > 0 for x in lengths) for (lengths, _), p in law.items())
    return tasks, 1 - done / rate, sum(p * said[s] for s, p in law.items()) / rate


CHAINS = [
    ("threshold(level=1)", 2, 2, {}),
    ("threshold(level=1, step=2)", 2, 2, {"high": 3}),
    ("jiq", 2, 2, {}),
    ("jiq", 3, 2, {}),
    ("threshold(level=1)", 2, 3, {}),
]


@both_kernels
@pytest.mark.parametrize(("policy", "m", "n", "levels"), CHAINS)
def test_tokens_heard_by_all_agree_with_their_chain(policy, m, n, levels, kernel):
    limit = 5 if n == 2 else 3
    one = scenario(m, count=n, limit=limit, load=0.9, tasks=20_000, warm_up=100.0, replications=40)

    tasks, lost, messages = chain_of_tokens(
        resolve(policy).policy.name, m, n, 0.9 * n, limit, **levels
    )
    runs = run(one, policy, kernel)

    assert_mean(runs["mean_tasks"], tasks)
    assert_mean(runs["lost"], lost)
    # tasks that are there at the end have not said what they will
    assert_mean(runs["messages_per_task"], messages, bias=m * 2e-4)


def chain_of_own(m, n, rate, limit, pool):
    """threshold(level=1) on own counts: at each server the tasks of each dispatcher.

    All tasks of a pool are in service; those of a shared server are equally likely to be next.
    """
    chain = Generator()
    first = ((0,) * n,) * m
    seen, waiting = {first}, [first]

    def go(state, k, s, change, rate):
        mine = (*state[k][:s], state[k][s] + change, *state[k][s + 1 :])
        there = (*state[:k], mine, *state[k + 1 :])
        chain.go(state, there, rate)
        if there not in seen:
            seen.add(there)
            waiting.append(there)

    while waiting:
        state = waiting.pop()
        total = [sum(mine[s] for mine in state) for s in range(n)]
        for k, mine in enumerate(state):
            colors = [min(x, 2) for x in mine]
            lowest = [s for s in range(n) if colors[s] == min(colors)]
            for s in lowest:
                if total[s] < limit:
                    go(state, k, s, +1, rate / m / len(lowest))
            for s in range(n):
                if mine[s]:
                    go(state, k, s, -1, mine[s] if pool else mine[s] / total[s])
    law = chain.stationary()
    sizes = [(p, [sum(mine[s] for mine in state) for s in range(n)]) for state, p in law.items()]
    tasks = sum(p * sum(x) for p, x in sizes) / n
    done = tasks * n if pool else sum(p * sum(map(bool, x)) for p, x in sizes)
    return tasks, 1 - done / rate


@pytest.mark.parametrize(
    ("m", "n", "load", "limit", "discipline"),
    [(2, 2, 1.5, 5, "pool"), (2, 2, 0.9, 6, "ps"), (3, 2, 0.9, 4, "ps"), (2, 3, 1.5, 3, "pool")],
)
def test_own_counts_agree_with_their_chain(m, n, load, limit, discipline):
    one = scenario(
        m, "own", count=n, limit=limit, load=load, discipline=discipline, tasks=20_000,
        warm_up=100.0, replications=40,
    )  # fmt: skip

    tasks, lost = chain_of_own(m, n, load * n, limit, discipline == "pool")
    runs = run(one, "threshold(level=1)")

    assert_mean(runs["mean_tasks"], tasks)
    assert_mean(runs["lost"], lost)


# --- A loop --------------------------------------------------------------------------------------


@numba.njit
def loop(m, own, n, load, tasks, rng):
    """The mean wait (Little) of threshold(level=1) on n single servers, from an empty system."""
    length, counted = np.zeros(n, np.int64), np.zeros((m, n), np.int64)
    band = np.zeros((m, n), np.int64)
    owner, head = np.zeros((n, 4096), np.int64), np.zeros(n, np.int64)
    rate, area, time, arrived = load * n, 0.0, 0.0, 0
    while arrived < tasks:
        busy = np.sum(length > 0)
        step = rng.exponential() / (rate + busy)
        if arrived > tasks // 20:
            area += (length.sum() - busy) * step
            time += step
        if rng.random() * (rate + busy) < rate:
            k = int(rng.random() * m)
            lowest = np.flatnonzero(band[k] == band[k].min())
            s = lowest[int(rng.random() * lowest.size)]
            band[k, s] = min(band[k, s] + 1, 2)
            owner[s, (head[s] + length[s]) % 4096] = k
            length[s] += 1
            counted[k, s] += 1
            arrived += 1
        else:
            s = np.flatnonzero(length > 0)[int(rng.random() * busy)]
            k = owner[s, head[s]]
            head[s] = (head[s] + 1) % 4096
            length[s] -= 1
            counted[k, s] -= 1
            for j in range(m):
                seen = counted[j, s] if own else length[s]
                if seen <= 1 and (j == k or not own):
                    band[j, s] = seen
    return area / time / rate


# To two digits. Runs of 16 million tasks give 0.220, 0.429, 0.697, 0.496 and 0.857 (+- 0.001).
FIGURES = {(1, "all"): 0.22, (2, "all"): 0.42, (4, "all"): 0.70, (2, "own"): 0.50, (4, "own"): 0.85}


@pytest.mark.parametrize(("m", "hear"), FIGURES)
def test_what_tokens_save_before_eight_servers(m, hear):
    """The mean wait is that of a loop written apart, and about the figures that were expected."""
    runs = {"tasks": 100_000, "warm_up": 500.0, "replications": 12, "seed": 3}
    one, rng = scenario(m, hear, count=8, load=0.7, **runs), np.random.default_rng(5)

    waits = run(one, "threshold(level=1)")["mean_wait"]
    apart = np.array([loop(m, hear == "own", 8, 0.7, 100_000, rng) for _ in range(12)])

    assert_same(waits, apart.mean(), apart.std(ddof=1) / 12**0.5)
    error = waits.std(ddof=1) / 12**0.5
    assert waits.mean() == pytest.approx(FIGURES[m, hear], abs=0.005 + 4 * error)


# --- What cannot be ------------------------------------------------------------------------------


def test_which_kernels_take_several_dispatchers():
    spec = [resolve("threshold(level=1)")]

    assert pick_kernel(scenario(2), "auto", spec) == "memoryless"
    assert pick_kernel(scenario(2, "own"), "auto", spec) == "events"
    assert pick_kernel(scenario(2, count=60_000), "auto", spec) == "memoryless"
    assert pick_kernel(scenario(1, count=60_000), "auto", spec) == "occupancy"
    with pytest.raises(EquipoiseError, match="occupancy kernel needs one dispatcher"):
        pick_kernel(scenario(2), "occupancy", spec)
    with pytest.raises(EquipoiseError, match="does not know which dispatcher sent a task; use eve"):
        pick_kernel(scenario(2, "own"), "memoryless", spec)
    with pytest.raises(PolicyMismatch, match='hear = "own" do not know; let them hear = "all"'):
        pick_kernel(scenario(2, "own"), "auto", [resolve("ll-d")])


# --- Recorded traffic ----------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    lines = [f"{i * 0.25},{0.1 + i % 3},{(i * i) % 3}" for i in range(400)]
    path.write_text("came,took,proxy\n" + "\n".join(lines) + "\n")
    return path


def replay(trace, dispatchers=3, hear="own", **arrivals):
    arrivals = {
        "law": "trace",
        "file": str(trace),
        "time": "came",
        "dispatcher": "proxy",
    } | arrivals
    return scenario(
        dispatchers, hear, arrivals=arrivals, service={"law": "trace", "column": "took"}
    )


@both
def test_a_trace_can_say_which_dispatcher_each_task_came_to(trace, hear):
    """Two of the three get tasks, in the order of the file; round-robin shows whose turn it was."""
    one = replay(trace, hear=hear, scale=1)
    record = replicate(one, resolve("round-robin"), 0, kernel="events", trail=4000)

    turn, expected = [0, 0, 0], []
    for i in range(400):
        whose = (i * i) % 3
        expected.append(turn[whose] % 20)
        turn[whose] += 1
    assert [event for event in record.trail.tolist() if event >= 0] == expected
    assert sorted(turn) == [0, 134, 266]


def test_copies_of_a_recorded_task_come_to_the_same_dispatcher(trace):
    one = replay(trace, scale=3, jitter=2.0)
    stream, split = one.task_stream(*seeds(1, 0)[:2]), one.task_split(seeds(1, 0)[SPLIT_SEED])

    times, sizes = stream.block()
    whose = split.take(len(times))

    assert len(times) == 1200
    for time, size, k in zip(times, sizes, whose, strict=True):
        near = [i for i in range(400) if 0 <= time - i * 0.25 < 2.0 and 0.1 + i % 3 == size]
        assert k in {(i * i) % 3 for i in near}
    # all tasks of 0.1 s have i = 0 mod 3, and the others i * i = 1 mod 3
    assert ((sizes == 0.1) == (whose == 0)).all()


def test_what_is_wrong_with_the_dispatchers_of_a_trace_is_said_in_one_line(trace, tmp_path):
    def read(text, **how):
        path = tmp_path / "wrong.csv"
        path.write_text("came,took,proxy\n" + text)
        return replay(path, **how)

    with pytest.raises(TraceError, match=r"came to dispatcher 3, but .* has 3, numbered from"):
        read("0,1,3\n").task_split(seeds(1, 0)[SPLIT_SEED])
    for text, said in (("a", "'a'; it must be a number"), ("0.5", "'0.5' is no dispatcher; they")):
        with pytest.raises(TraceError, match=f"wrong.csv, line 2: column proxy: {said}"):
            read(f"0,1,{text}\n").task_split(seeds(1, 0)[SPLIT_SEED])
    with pytest.raises(TraceError, match="no column 'Proxy'; did you mean 'proxy'"):
        replay(trace, dispatcher="Proxy").task_split(seeds(1, 0)[SPLIT_SEED])
