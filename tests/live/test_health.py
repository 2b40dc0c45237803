"""Who may get traffic; time comes in from outside, so that nothing here waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.live.health import Health, Rules, State


class Watched:
    """A `Health` and the changes that it told of."""

    def __init__(self, names="abcd", **rules):
        self.changes = []
        self.health = Health(
            Rules(**rules), lambda name, condition: self.changes.append((name, condition.state))
        )
        for name in names:
            self.health.add(name, 0.0)

    def up(self):
        """Let every server have one good check."""
        for name in self.health.of:
            self.health.checked(name, True, 0.0)
        self.changes.clear()
        return self

    def fail(self, name, times, now=1.0):
        for _ in range(times):
            self.health.failed(name, now, "upstream error")

    def states(self):
        return "".join(str(state)[0] for state in self.health.states())


def test_a_new_server_gets_nothing_before_its_first_good_check():
    watched = Watched("ab")

    watched.health.checked("a", False, 1.0, "refused")
    assert watched.states() == "nn"
    assert watched.health.of["a"].why == "refused"
    watched.health.checked("a", True, 2.0)

    assert watched.changes == [("a", State.UP)]


def test_where_nothing_is_checked_a_new_server_is_up_at_once():
    assert Watched("ab", check="none").changes == [("a", State.UP), ("b", State.UP)]


def test_bad_checks_in_a_row_take_a_server_out_and_good_ones_bring_it_back():
    watched = Watched(fall=3, rise=2).up()
    for good in (False, False, True, False, False):
        watched.health.checked("a", good, 1.0, "refused")
    assert watched.changes == []

    watched.health.checked("a", False, 2.0, "refused")
    watched.health.checked("a", True, 3.0)
    watched.health.checked("a", False, 4.0)
    watched.health.checked("a", True, 5.0)
    assert watched.changes == [("a", State.DOWN)]

    watched.health.checked("a", True, 6.0)
    assert watched.changes == [("a", State.DOWN), ("a", State.UP)]


def test_failures_in_a_row_eject_and_one_success_between_them_does_not():
    watched = Watched(failures=3).up()
    watched.fail("a", 2)
    watched.health.worked("a")
    watched.fail("a", 2)
    assert watched.changes == []

    watched.fail("a", 1)

    assert watched.changes == [("a", State.EJECTED)]
    assert watched.health.of["a"].why == "3 failures in a row, the last one: upstream error"


@pytest.mark.parametrize(
    ("floor", "servers", "ejected"),
    [(0.5, 4, 2), (0.5, 5, 2), (0.75, 4, 1), (1.0, 4, 0), (0.0, 4, 4), (0.5, 1, 0)],
)
def test_ejection_leaves_a_share_of_the_fleet_up(floor, servers, ejected):
    names = "abcde"[:servers]
    watched = Watched(names, failures=1, floor=floor).up()

    for name in names:
        watched.fail(name, 1)

    assert watched.states().count("e") == ejected
    assert watched.health.spared == servers - ejected


def test_checks_know_no_floor():
    watched = Watched("ab", fall=1, floor=1.0).up()
    for name in "ab":
        watched.health.checked(name, False, 1.0)

    assert watched.states() == "dd"


def test_each_ejection_lasts_twice_as_long_until_the_server_has_done_well():
    watched = Watched(failures=1, back_off=5.0, back_off_most=15.0, check="none")
    now, lasted = 10.0, []
    for _ in range(4):
        watched.fail("a", 1, now)
        condition = watched.health.of["a"]
        lasted.append(condition.until - now)
        watched.health.due(condition.until - 0.001)
        assert condition.state is State.EJECTED
        now = condition.until
        watched.health.due(now)
        assert condition.state is State.UP
        now += 1.0

    assert lasted == [5.0, 10.0, 15.0, 15.0]

    now += 100.0
    watched.fail("a", 1, now)
    assert watched.health.of["a"].until - now == 5.0


def test_an_ejected_server_whose_checks_are_bad_does_not_come_back():
    watched = Watched(failures=1, fall=3, rise=1).up()
    watched.fail("a", 1)
    watched.health.checked("a", False, 2.0, "refused")

    watched.health.due(100.0)
    assert watched.health.of["a"].state is State.DOWN
    watched.health.checked("a", True, 101.0)
    assert watched.health.of["a"].state is State.UP


def test_a_good_check_does_not_end_an_ejection_early():
    """It answers its checks and fails its requests: that is what ejection is for."""
    watched = Watched(failures=1, back_off=5.0).up()
    watched.fail("a", 1, now=1.0)
    for second in range(2, 6):
        watched.health.checked("a", True, float(second))
        watched.health.due(float(second))
        assert watched.health.of["a"].state is State.EJECTED

    watched.health.due(6.0)
    assert watched.health.of["a"].state is State.UP


def test_a_draining_server_stays_so_whatever_is_heard_of_it():
    watched = Watched(failures=1, fall=1, rise=1).up()
    watched.health.drain("a", 1.0)
    watched.health.checked("a", True, 2.0)
    watched.health.checked("a", False, 2.0)
    watched.fail("a", 3)
    watched.health.due(1e9)

    assert watched.changes == [("a", State.DRAINING)]


def test_what_is_heard_of_a_server_that_is_gone_is_passed_over():
    watched = Watched("a").up()
    watched.health.forget("a")
    watched.health.checked("a", True, 1.0)
    watched.health.failed("a", 1.0, "x")
    watched.health.worked("a")

    assert watched.changes == []


def test_failures_that_never_eject():
    watched = Watched(failures=0).up()
    watched.fail("a", 1000)

    assert watched.changes == []


@given(
    events=st.lists(
        st.tuples(st.sampled_from("gbfwdt"), st.integers(0, 3), st.floats(0, 30)), max_size=80
    ),
    floor=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_passive_ejection_alone_never_undershoots_the_floor(events, floor):
    """Whatever comes: the state is what was told last, and the floor holds at each ejection."""
    watched = Watched(failures=1, floor=floor, back_off=2.0)
    told, now = {}, 0.0

    def note(name, condition):
        told[name] = condition.state
        if condition.state is State.EJECTED:
            staying = [s for s in watched.health.states() if s is not State.DRAINING]
            assert sum(s is State.UP for s in staying) >= floor * len(staying) - 1e-9

    watched.health.on_change = note
    for what, which, passed in events:
        name = "abcd"[which]
        now += passed
        if what in "gb":
            watched.health.checked(name, what == "g", now)
        elif what == "f":
            watched.health.failed(name, now, "")
        elif what == "w":
            watched.health.worked(name)
        elif what == "d" and passed > 25:
            watched.health.drain(name, now)
        watched.health.due(now)

    for name, condition in watched.health.of.items():
        assert told.get(name, State.NEW) is condition.state
