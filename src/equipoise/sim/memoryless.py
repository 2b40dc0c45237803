"""n servers behind one dispatcher, Poisson arrivals of any rate, exponential service.

State: a slot list, one entry for each task in service, so that the next departure is a uniformly
random slot, for pools, single servers and c workers alike: one draw and one swap. Tasks that wait
stand in a ring per server (waiting.py), and memory follows the number of tasks. In large fleets
what the next events will touch is asked for ahead of time (lookahead.py). Time is in mean service
times; with `busy` tasks in service the next event comes after Exp(1) / (rate + busy).

Servers of unequal speed: slots stand in rows by class of speed, one for each speed where there are
few, else one for each octave. A row of k slots offers events at the rate of k times its fastest
server, and an event of a slower one is refused with the fitting probability (uniformization):
exact, O(1), at least half of them good, and all counts stay whole numbers.

Arrivals whose rate changes, and batches: inflow.py. Updates by the clock: ticks.py. Servers whose
speed depends on how many tasks they have, and processor sharing: curved.py, driven from here.

A policy that knows every length (`Policy.knows`) draws who departs from its own index, at many
identical pools: the slot list and the lengths are not kept, see `knows_all`.

The path does not depend on how a run is cut into calls: the time of an event that lies beyond
the end of a call is kept in `tally.now[PENDING]`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import give_back, kernel, near, nearby
from ..policies.base import Policy
from ..policies.dispatchers import steps_of
from ..policies.levels import MOST_LEVELS
from ..policies.spec import PolicySpec
from ..policies.steps import OUT_OF_RANGE, make_known_steps
from ..rng import (
    ARRIVALS_SEED,
    CLOCK_SEED,
    Soon,
    exponential,
    exponential_soon,
    make_rng,
    make_soon,
    uniform,
    uniform_soon,
)
from ..scenario import Scenario
from .curved import make_curved, make_shared_tasks, more_stamps
from .driver import Driver
from .inflow import (
    Inflow,
    Pieces,
    Switches,
    draw_batch,
    make_inflow,
    make_tick,
    no_tick,
    rate_at,
)
from .lookahead import fit_frame, frame_of, make_lookahead
from .store import (
    NEEDS_LEVELS,
    NEEDS_NODES,
    NEEDS_SLOTS,
    NO_SUCH_SERVER,
    NOBODY,
    REACHED,
)
from .tally import (
    ARRIVED,
    BALANCED,
    FINISHED,
    LOST,
    NO_TIME,
    NOW,
    PENDING,
    TALLEST,
    THRESHOLD,
    announced,
    fallen,
    pass_time,
    responded,
    risen,
    settle,
    started_at_once,
    waited,
)
from .ticks import Ticks, make_ticks
from .waiting import Waiting, leave_line, line_up, make_waiting, more_waiting

U = np.uintp
BUSY = 0
FEW_SPEEDS = 16  # so many distinct ones have a row each
MANY = 10_000  # servers, see `knows_all`
FAR = 30_000  # servers from which on memory is worth asking for ahead of time, see `is_far`


@near(counts=1, rng=4)
class Memoryless(NamedTuple):
    """The tasks of a memoryless system, in service and waiting."""

    server: np.ndarray  # int32[slots], whose task each slot in service is
    stamp: np.ndarray  # float64[slots], when it arrived (empty for pools: nobody waits there)
    waiting: Waiting  # when the others arrived, in order (queues)
    counts: np.ndarray  # int64[1], slots in service
    rng: np.ndarray | Soon  # uint64[4], the coins of arrivals and departures; held ahead if far
    speed: np.ndarray  # float64[n], speed of each server (empty if all are 1, like the rest)
    row: np.ndarray  # int32[n], its row of slots
    fastest: np.ndarray  # float64[rows], the largest speed in each row
    filled: np.ndarray  # int64[rows], slots in service in each row of `server`, all of one size
    frame: np.ndarray  # int64[rows or 1], a little more than these, see lookahead.py
    inflow: Inflow
    ticks: Ticks | None = None  # of a policy that has a clock


@cache
def make_memoryless(
    policy: Policy, switches: Switches, known: bool = False, far: bool = False
) -> Any:
    """Return the kernel of one policy.

    `known`: its memory is all there is, see `knows_all`. `far`: memory is asked for ahead of time,
    see lookahead.py.

    run(world, tasks, tally, rate, workers, until, most) runs to time `until` (mean service times)
    or until `most` tasks have arrived, at `rate` arrivals per mean service time, all servers
    together (the largest rate where it changes, see inflow.py); it returns why it came back:
    REACHED, or what must grow outside before the next call.
    """
    queue, limited, unequal, varying, batched, several = switches
    arrive, depart, *_ = steps_of(policy, several, limited)
    learns, clocked = policy.learns, policy.clock is not None
    tick = make_tick(policy, limited, several) if clocked else no_tick
    before_event, after_arrival = make_lookahead(policy, queue, unequal)
    draw, draw_gap = (uniform_soon, exponential_soon) if far else (uniform, exponential)
    arrive_known, depart_known = make_known_steps(policy) if known else (None, None)

    def memoryless(world, tasks, tally, rate, workers, until, most):
        whole = world, tasks, tally
        world, tasks, tally = nearby(world), nearby(tasks), nearby(tally)
        size, levels = world.length.size, tally.least.size
        number, now, counts = tally.number, tally.now, tasks.counts
        busy = counts[BUSY]
        width = tasks.server.size // max(1, tasks.filled.size)
        span = tasks.frame if far else tasks.filled
        code = REACHED
        while True:
            if number[ARRIVED] >= most:
                break
            if number[TALLEST] + 3 >= levels or number[BALANCED] + 3 >= levels:
                code = NEEDS_LEVELS
                break
            if not known and busy >= width:
                code = NEEDS_SLOTS
                break
            if queue and tasks.waiting.free[0] == NOBODY:
                code = NEEDS_NODES
                break
            at, drawn = now[NOW], -1.0  # the next task of a batch comes at once
            if not batched or tasks.inflow.left[0] == 0:
                total_rate = rate
                if unequal:
                    for row in range(tasks.filled.size):
                        if far:
                            fit_frame(tasks.frame, row, tasks.filled[row])
                        total_rate += span[row] * tasks.fastest[row]
                elif far:
                    fit_frame(tasks.frame, 0, busy)
                    total_rate += tasks.frame[0]
                else:
                    total_rate += busy
                at = now[PENDING]
                if not at >= 0.0:
                    at = until
                    if total_rate > 0.0:
                        at = now[NOW] + draw_gap(tasks.rng) / total_rate
                if clocked:
                    turn_at = tasks.ticks.next[0]
                    if turn_at <= at and turn_at < until:
                        if total_rate > 0.0:
                            now[PENDING] = at
                        pass_time(tally, turn_at, size)
                        tick(world, tasks.ticks, turn_at)
                        continue
                if at >= until:
                    if total_rate > 0.0:
                        now[PENDING] = at
                    pass_time(tally, until, size)
                    break
                now[PENDING] = np.nan
                pass_time(tally, at, size)
                drawn = draw(tasks.rng) * total_rate
                if far:
                    before_event(world, tasks, rate)
            if drawn < rate:  # a task arrives
                if varying and drawn >= 0.0 and drawn >= rate_at(tasks.inflow, at):
                    continue  # not now: the rate is below its largest
                if batched:
                    if drawn >= 0.0:
                        rng = tasks.rng.state if far else tasks.rng  # none of those held ahead
                        tasks.inflow.left[0] = draw_batch(tasks.inflow, rng)
                    tasks.inflow.left[0] -= 1
                if known:
                    server, length = arrive_known(world)
                else:
                    server = arrive(world)
                if server == OUT_OF_RANGE:
                    code = NO_SUCH_SERVER
                    break
                number[ARRIVED] += 1
                if limited and server < 0:
                    number[LOST] += 1
                    continue
                if not known:
                    length = np.int64(world.length[U(server)])
                risen(tally, length, size)
                if not queue or length <= workers:
                    slot = busy
                    if unequal:
                        row = tasks.row[U(server)]
                        slot = row * width + tasks.filled[U(row)]
                        tasks.filled[U(row)] += 1
                    if not known:
                        tasks.server[U(slot)] = server
                    busy += 1
                    if queue:
                        tasks.stamp[U(slot)] = at
                        started_at_once(tally)
                else:
                    line_up(tasks.waiting, server, length - workers - 1, at)
                if learns and world.announcement[0] != number[THRESHOLD]:
                    announced(tally, world.announcement[0])
                if far:
                    after_arrival(world, tasks, workers)
            else:  # the task in a random slot is done
                row = 0
                if unequal:
                    rest = drawn - rate
                    while row < tasks.filled.size - 1:
                        offered = span[U(row)] * tasks.fastest[U(row)]
                        if rest < offered:
                            break
                        rest -= offered
                        row += 1
                    rest /= tasks.fastest[U(row)]
                    slot = int(rest)
                    if far and slot >= tasks.filled[U(row)]:
                        continue  # in the frame, but nobody is there
                    slot = min(slot, tasks.filled[U(row)] - 1)
                    refuse = (rest - slot) * tasks.fastest[U(row)]  # uniform below the fastest
                    slot += row * width
                    if slot < row * width or refuse >= tasks.speed[U(tasks.server[U(slot)])]:
                        continue
                elif far and drawn - rate >= busy:
                    continue  # in the frame, but nobody is there
                elif not known:
                    slot = min(int(drawn - rate), busy - 1)
                number[FINISHED] += 1
                if known:
                    server, length = depart_known(world, drawn - rate)
                else:
                    server = np.int64(tasks.server[U(slot)])
                    length = np.int64(world.length[U(server)])
                    depart(world, server)
                fallen(tally, length, size)
                if queue and tasks.stamp[U(slot)] != NO_TIME:
                    responded(tally, at - tasks.stamp[U(slot)])
                if queue and length > workers:  # the first one waiting takes the slot
                    since = leave_line(tasks.waiting, server, length - workers)
                    tasks.stamp[U(slot)] = since
                    if since != NO_TIME:
                        waited(tally, at - since)
                else:
                    busy -= 1
                    last = busy
                    if unequal:
                        tasks.filled[U(row)] -= 1
                        last = row * width + tasks.filled[U(row)]
                    if not known:
                        tasks.server[U(slot)] = tasks.server[U(last)]
                    if queue:
                        tasks.stamp[U(slot)] = tasks.stamp[U(last)]
        counts[BUSY] = busy
        settle(tally)
        give_back(whole[0], world)
        give_back(whole[1], tasks)
        give_back(whole[2], tally)
        return code

    memoryless.__name__ = f"memoryless_{policy.name.replace('-', '_')}"
    return kernel(memoryless)


def knows_all(scenario: Scenario, policy: Policy, lengths: np.ndarray) -> bool:
    """Whether the policy's memory will do: then neither lengths nor tasks are listed beside it.

    From 10,000 servers on, where memory is what costs: at a million 1.8 times as fast, in a
    quarter of the memory. For fewer the list of tasks is a little faster (7 % at 500 servers).
    """
    servers = scenario.servers
    plain = servers.discipline == "pool" and servers.identical and servers.limit is None
    most = max(float(lengths.max()), scenario.offered_load()[2])
    plain = plain and not scenario.dispatchers.several
    return policy.knows is not None and plain and lengths.size >= MANY and most < MOST_LEVELS / 2


def is_far(servers: int, known: bool) -> bool:
    """Whether memory is asked for ahead of time: it pays where caches do not hold the fleet.

    Measured at 30,000, 50,000, 10^5 and 10^6 servers: jsq-d 1.0, .9, .8 and .45 of the time,
    threshold on pools 1.04, .94, .84 and .6, aujsq-exp .9, .8, .6; jsq and jiq on queues, where
    nobody waits, 1.2, 1.1 and 1.0.
    Not without a list of tasks: there an event touches one line, and nothing waits for it.
    """
    return servers >= FAR and not known


def make_tasks(
    lengths: np.ndarray,
    workers: int,
    queue: bool,
    rng: np.ndarray,
    speeds: np.ndarray | None = None,
    known: bool = False,
) -> Memoryless:
    """Return the tasks of servers with these lengths, int[n], `workers` of each in service.

    `speeds`, float64[n], where they differ. `known`: they are counted, not listed.
    """
    n = lengths.size
    serving = np.minimum(lengths, workers)
    busy = int(serving.sum())
    if known:
        none, nobody = np.zeros(0), np.zeros(0, np.int32)
        counts, filled = np.array([busy], np.int64), np.zeros(0, np.int64)
        return Memoryless(
            nobody, none, make_waiting(nobody), counts, rng, none, nobody, none, filled,
            frame_of(counts), make_inflow(None),
        )  # fmt: skip
    slots = min(max(1024, 2 * busy), n * min(workers, 2**31) + 1)
    speed, row, fastest = speed_rows(speeds)
    rows = max(1, fastest.size)
    table = np.zeros((rows, slots), np.int32)
    filled = np.zeros(fastest.size, np.int64)
    for i in range(rows):
        mine = serving if not fastest.size else np.where(row == i, serving, 0)
        here = int(mine.sum())
        table[i, :here] = np.repeat(np.arange(n, dtype=np.int32), mine)
        if fastest.size:
            filled[i] = here
    server = table.ravel()
    stamp = np.full(server.size if queue else 0, NO_TIME)
    waiting = make_waiting(in_line(lengths, workers) if queue else np.zeros(0, np.int64))
    counts = np.array([busy], np.int64)
    return Memoryless(
        server, stamp, waiting, counts, rng, speed, row, fastest, filled,
        frame_of(filled if rows > 1 else counts), make_inflow(None),
    )  # fmt: skip


def speed_rows(speeds: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (speed float64[n], row int32[n], fastest float64[rows]); all empty for None."""
    if speeds is None:
        return np.zeros(0), np.zeros(0, np.int32), np.zeros(0)
    speeds = np.asarray(speeds, float)
    distinct, row = np.unique(speeds, return_inverse=True)
    if distinct.size > FEW_SPEEDS:
        octave = np.floor(np.log2(speeds / speeds.max())).astype(np.int64)
        _, row = np.unique(octave, return_inverse=True)
    fastest = np.array([speeds[row == i].max() for i in range(row.max() + 1)])
    return speeds, row.astype(np.int32), fastest


def in_line(lengths: np.ndarray, workers: int) -> np.ndarray:
    """Return how many tasks wait at servers with so many, int[n]."""
    return np.maximum(lengths - workers, 0)


def more_slots(tasks: Memoryless) -> Memoryless:
    """Return the same tasks with twice the slots in each row."""
    rows = max(1, tasks.filled.size)

    def wider(array: np.ndarray, fill: float) -> np.ndarray:
        table = array.reshape(rows, -1)
        more = np.full((rows, 2 * table.shape[1]), fill, array.dtype)
        more[:, : table.shape[1]] = table
        return more.ravel()

    return tasks._replace(
        server=wider(tasks.server, 0),
        stamp=wider(tasks.stamp, NO_TIME) if tasks.stamp.size else tasks.stamp,
    )


class MemorylessDriver(Driver):
    """Drives memoryless.py or curved.py, in mean service times, through the pieces of a flow."""

    def __init__(self, scenario: Scenario, spec: PolicySpec, replication: int, trail: int) -> None:
        super().__init__(scenario, spec, replication, trail)
        self.unit = scenario.mean_service
        flow, batch = scenario.flow, scenario.batch
        assert flow is not None
        switches = Switches(
            self.queue, self.limited, self.speeds is not None, flow.changes, batch is not None,
            self.several is not None,
        )  # fmt: skip
        rng = make_rng(self.streams[ARRIVALS_SEED])
        if scenario.servers.discipline == "ps":
            self.kernel = make_curved(spec.policy, switches)
            curve = scenario.servers.speed_curve(scenario.servers.last_change)
            self.tasks = make_shared_tasks(self.lengths, curve, rng, self.speeds)
        else:
            known = knows_all(scenario, spec.policy, self.lengths)
            far = is_far(self.size, known) and not switches.several
            self.kernel = make_memoryless(spec.policy, switches, known, far)
            self.tasks = make_tasks(self.lengths, self.workers, self.queue, rng, self.speeds, known)
            if known and spec.policy.knows is not None:
                self.world = self.world._replace(state=spec.policy.knows.lean(self.world.state))
            if far:
                self.tasks = self.tasks._replace(rng=make_soon(rng))
        self.tasks = self.tasks._replace(inflow=make_inflow(batch), ticks=self._ticks())
        self.lengths = self.lengths[:0].copy()  # of the start: 8 bytes a server, needed no more
        self.pieces = Pieces(flow, self.unit, batch)

    def _more_waiting(self) -> Memoryless:
        line = in_line(self.world.length, self.workers)
        return self.tasks._replace(waiting=more_waiting(self.tasks.waiting, line))

    def _ticks(self) -> Ticks | None:
        """Return the clock of the policy, if it has one, in mean service times."""
        clock, params = self.spec.policy.clock, dict(self.spec.params)
        if clock is None:
            return None
        asked = int(params.get("mode", "pull") == "push") * self.scenario.dispatchers.count
        rng = make_rng(self.streams[CLOCK_SEED])
        return make_ticks(clock, 1 / params["delta"], asked, self.lengths.size, rng)

    def run(self, until: float, most: int) -> None:
        until /= self.unit
        while True:
            rate, end = self.pieces.begin(self.tasks.inflow)
            if self.pieces.over and until == np.inf:
                return  # no more traffic and no more time asked for
            code = self.call(rate, self.workers, min(until, end), most)
            if code == REACHED:
                if self.arrived() >= most or until <= end:
                    return
                self.pieces.now += 1
                self.tally.now[PENDING] = np.nan  # drawn at the old rate; memory is not needed
            elif code == NEEDS_SLOTS:
                self.tasks = more_slots(self.tasks)
            elif code == NEEDS_NODES:
                shared = self.scenario.servers.discipline == "ps"
                self.tasks = more_stamps(self.tasks) if shared else self._more_waiting()
            else:
                self.grow(code)
