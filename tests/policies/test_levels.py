"""The index against a list of lists: same sets, same bounds, whatever is done to it."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policies.play import even

from equipoise.policies.levels import (
    MOST_LEVELS,
    band_at,
    demote,
    lower_drawn,
    lower_one,
    lowest,
    make_bands,
    make_levels,
    promote,
    raise_lowest,
    raise_one,
    set_band,
    set_level,
)
from equipoise.rng import make_rng


class Lists:
    """Servers in one list per level, the naive way; nothing is known of their order."""

    def __init__(self, level, levels):
        self.at = [[s for s, of in enumerate(level) if of == i] for i in range(levels)]

    def level(self, server):
        return next(i for i, servers in enumerate(self.at) if server in servers)

    def move(self, server, level):
        self.at[self.level(server)].remove(server)
        self.at[min(max(level, 0), len(self.at) - 1)].append(server)


def read_levels(index):
    """Return the servers of each level, after checking that the index agrees with itself."""
    n, end = index.order.size, index.end.tolist()
    assert sorted(index.order.tolist()) == list(range(n))
    assert end == sorted(end)
    assert end[-1] == n
    assert index.place[index.order, 0].tolist() == list(range(n))
    at = [sorted(index.order[a:b].tolist()) for a, b in zip([0, *end], end, strict=False)]
    for level, servers in enumerate(at):
        assert all(index.place[server, 1] == level for server in servers)
    assert at.pop() == [], "the place beyond the last level stays empty"
    assert index.low[0] == next(i for i, servers in enumerate(at) if servers)
    return at


def read_bands(index):
    """Return the servers of each band, after checking that the index agrees with itself."""
    end = index.end.tolist()
    assert sorted(index.order.tolist()) == list(range(index.size))
    assert end == sorted(end)
    assert end[-1] == index.size
    assert index.position[index.order].tolist() == list(range(index.size))
    return [sorted(index.order[a:b].tolist()) for a, b in zip([0, *end], end, strict=False)]


def sorted_lists(lists):
    return [sorted(servers) for servers in lists.at]


LEVELS = 5
starts = st.lists(st.integers(0, LEVELS - 1), min_size=1, max_size=8)
moves = st.lists(
    st.tuples(st.sampled_from(("raise", "lower", "set")), st.integers(0, 7), st.integers(-2, 8)),
    min_size=10,
    max_size=40,
)


@given(start=starts, script=moves)
def test_levels_hold_what_a_list_of_lists_holds(start, script):
    """Also at the top, where raising does nothing more, and for levels out of reach."""
    index, lists = make_levels(np.array(start), LEVELS), Lists(start, LEVELS)
    assert read_levels(index) == sorted_lists(lists)

    for what, server, level in script:
        server %= len(start)
        if what == "raise":
            raise_one(index, server)
            lists.move(server, lists.level(server) + 1)
        elif what == "lower" and lists.level(server) > 0:
            lower_one(index, server)
            lists.move(server, lists.level(server) - 1)
        elif what == "set":
            set_level(index, server, level)
            lists.move(server, level)

        assert read_levels(index) == sorted_lists(lists)


@given(start=starts, seed=st.integers(0, 2**32))
def test_a_draw_is_from_the_lowest_level_that_has_anyone(start, seed):
    index = make_levels(np.array(start), LEVELS)

    server = lowest(index, make_rng(seed))

    assert start[server] == min(start)


def test_draws_from_the_lowest_level_are_uniform():
    index = make_levels(np.array([3, 1, 2, 1, 1, 4, 1, 1]), LEVELS)
    rng = make_rng(1)

    drawn = Counter(int(lowest(index, rng)) for _ in range(5000))

    assert sorted(drawn) == [1, 3, 4, 6, 7]
    assert even(list(drawn.values()))


@given(start=starts, seed=st.integers(0, 2**32))
def test_raising_the_lowest_is_drawing_it_and_raising_it(start, seed):
    index, other = make_levels(np.array(start), LEVELS), make_levels(np.array(start), LEVELS)

    server, level = raise_lowest(index, make_rng(seed))

    drawn = lowest(other, make_rng(seed))
    raise_one(other, drawn)
    assert (server, level) == (drawn, min(min(start) + 1, LEVELS - 1))
    assert read_levels(index) == read_levels(other)


@given(start=starts.filter(any), part=st.floats(0, 0.99))
def test_every_task_of_every_server_has_a_number_to_be_drawn_by(start, part):
    """Whatever the part of a whole number: so each is drawn in proportion to its level."""
    drawn = Counter()
    for number in range(sum(start)):
        index, lists = make_levels(np.array(start), LEVELS), Lists(start, LEVELS)

        server, level = lower_drawn(index, number + part)

        assert level == start[server]
        lists.move(server, level - 1)
        assert read_levels(index) == sorted_lists(lists)
        drawn[server] += 1

    assert [drawn[s] for s in range(len(start))] == start


def test_a_server_longer_than_all_levels_counts_as_the_longest_and_can_come_back():
    index = make_levels(np.array([0, MOST_LEVELS + 5, MOST_LEVELS - 1]))

    raise_one(index, 1)
    raise_one(index, 2)

    assert index.place[:, 1].tolist() == [0, MOST_LEVELS - 1, MOST_LEVELS - 1]

    lower_one(index, 1)
    set_level(index, 2, 2**40)
    set_level(index, 0, 3)

    assert index.place[:, 1].tolist() == [3, MOST_LEVELS - 2, MOST_LEVELS - 1]
    assert index.low[0] == 3


def test_the_lowest_level_is_found_again_when_the_last_server_leaves_it():
    index = make_levels(np.array([0, 2, 4]), LEVELS)

    set_level(index, 0, 4)
    assert index.low[0] == 2

    set_level(index, 1, 3)
    assert index.low[0] == 3

    set_level(index, 2, 0)
    assert index.low[0] == 0


@pytest.mark.parametrize("bands", [2, 3])
@given(data=st.data())
def test_bands_hold_what_a_list_of_lists_holds(bands, data):
    band = st.integers(0, bands - 1)
    start = data.draw(st.lists(band, min_size=1, max_size=8))
    index, lists = make_bands(np.array(start), bands), Lists(start, bands)
    assert read_bands(index) == sorted_lists(lists)

    script = st.lists(
        st.tuples(st.sampled_from(("demote", "promote", "set")), st.integers(0, 7), band),
        min_size=10,
        max_size=40,
    )
    for what, server, to in data.draw(script):
        server %= len(start)
        now = lists.level(server)
        assert band_at(index, index.position[server]) == now
        if what == "demote" and now < bands - 1:
            assert demote(index, int(index.position[server])) == server
            lists.move(server, now + 1)
        elif what == "promote" and now > 0:
            promote(index, server)
            lists.move(server, now - 1)
        elif what == "set":
            set_band(index, server, to)
            lists.move(server, to)

        assert read_bands(index) == sorted_lists(lists)


@given(
    start=st.lists(st.integers(0, 2), min_size=1, max_size=8),
    script=st.lists(
        st.tuples(st.sampled_from(("up", "down", 0, 1, 2, 0, 1, 2)), st.integers(0, 7)),
        min_size=10,
        max_size=40,
    ),
)
def test_moving_a_boundary_moves_all_servers_of_a_band_at_once(start, script):
    """What a new threshold does: up, yellow becomes green; down, green becomes yellow."""
    index, lists = make_bands(np.array(start), 3), Lists(start, 3)

    for what, server in script:
        green, yellow, rest = lists.at
        if what == "up":
            index.end[0] = index.end[1]
            lists.at = [green + yellow, [], rest]
        elif what == "down":
            index.end[1], index.end[0] = index.end[0], 0
            lists.at = [[], green, yellow + rest]
        else:
            set_band(index, server % len(start), what)
            lists.move(server % len(start), what)

        assert read_bands(index) == sorted_lists(lists)


def test_two_bands_from_a_yes_or_no():
    index = make_bands(np.array([True, False, True, False]), 2)

    assert read_bands(index) == [[1, 3], [0, 2]]


def test_empty_bands_in_front_are_passed_over():
    index = make_bands(np.array([2, 2]), 3)

    assert index.end.tolist() == [0, 0, 2]
    assert band_at(index, 0) == 2
