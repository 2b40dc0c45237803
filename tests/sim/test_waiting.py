"""Who waits where: rings and lists against queues of the standard library."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.sim.store import NOBODY
from equipoise.sim.tally import NO_TIME
from equipoise.sim.waiting import (
    MOST_ROOM,
    leave_line,
    line_up,
    make_waiting,
    more_waiting,
)

UNKNOWN = float(NO_TIME)


class Lines:
    """Waiting tasks, and beside them a plain queue for each server."""

    def __init__(self, waiting):
        self.queues = [deque([UNKNOWN] * tasks) for tasks in waiting]
        self.waiting = make_waiting(np.array(waiting, np.int64))

    @property
    def tasks(self):
        return np.array([len(queue) for queue in self.queues])

    def come(self, server, at):
        if self.waiting.free[0] == NOBODY:
            self.waiting = more_waiting(self.waiting, self.tasks)
        line_up(self.waiting, server, len(self.queues[server]), at)
        self.queues[server].append(at)

    def go(self, server):
        """Return when the first one came, by both."""
        since = leave_line(self.waiting, server, len(self.queues[server]))
        return since, self.queues[server].popleft()


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=40),
)
def test_whoever_came_first_goes_first_however_long_the_lines(start, visits):
    """Visits are a server and how many come there; half as many go then, at the end all."""
    lines, now = Lines(start), 0.0
    for server, coming in visits:
        server %= len(start)
        for _ in range(coming):
            now += 1.0
            lines.come(server, now)
        for _ in range(min(len(lines.queues[server]), coming // 2 + 1)):
            one, other = lines.go(server)
            assert one == other

    for server, queue in enumerate(lines.queues):
        while queue:
            one, other = lines.go(server)
            assert one == other


def test_lines_as_long_everywhere_stand_in_rings():
    lines = Lines([0] * 64)
    for i in range(12):
        for server in range(64):
            lines.come(server, float(i))

    assert lines.waiting.room == 16
    assert lines.waiting.next.size == 16  # never more than at first
    assert lines.waiting.since.ctypes.data % 64 == 0


@pytest.mark.parametrize("servers", [1, 10, 1000])
def test_memory_follows_the_tasks_also_where_one_server_has_them_all(servers):
    """At most four places of a ring, and two nodes, for each of them; and some for each server."""
    lines, tasks = Lines([0] * servers), 5000
    for i in range(tasks):
        lines.come(servers - 1, float(i))

    waiting = lines.waiting
    assert waiting.room <= MOST_ROOM
    assert waiting.since.size <= max(2 * servers, 4 * tasks)
    assert waiting.next.size <= 2 * tasks + servers
    assert [lines.go(servers - 1)[0] for _ in range(tasks)] == list(range(tasks))


def test_room_is_made_at_once_for_those_of_the_start():
    waiting = make_waiting(np.full(1000, 11))

    assert (waiting.room, waiting.free[0]) == (16, 0)
