"""The fleet: what the proxy asks and tells, and what health makes of it; on a clock of our own."""

from collections import Counter

import pytest

from equipoise.errors import EquipoiseError
from equipoise.live.dispatch import Dispatch, Exchange
from equipoise.live.fleet import MOST_PENALTIES, Backend, Fleet
from equipoise.live.health import Rules, State
from equipoise.policies import Policy


class Made:
    """A fleet of servers called a, b, .. and a clock that stands."""

    def __init__(
        self, policy="jsq", names="abc", *, limit=None, checked=True, period=None, **rules
    ):
        self.now, self.events, self.records, self.freed = 100.0, [], [], 0
        self.fleet = Fleet(
            policy,
            [Backend(name, "127.0.0.1", 9000 + i, limit=limit) for i, name in enumerate(names)],
            Rules(**rules),
            seed=1,
            period=period,
            log=self.records.append,
            on_event=self.events.append,
            clock=lambda: self.now,
        )
        self.fleet.on_freed(self._freed)
        if checked:
            for name in names:
                self.fleet.checked(name, True)

    def _freed(self):
        self.freed += 1

    def told(self):
        return [event.text for event in self.events]

    def after(self, seconds):
        self.now += seconds
        self.fleet.tick()

    def server(self, name):
        return next(s for s in self.fleet.status()["servers"] if s["name"] == name)


def exchange(server, status=200, outcome="ok", retries=0):
    return Exchange(
        *(1.7e9, "127.0.0.1", "GET", "/", status, 0, 10, server, outcome, retries),
        *(0.001, 0.002, 0.003, 0.004, "id", ""),
    )


def test_a_fleet_is_what_the_proxy_asks_for():
    fleet: Dispatch = Made().fleet
    slot = fleet.choose()

    assert fleet.address(slot)[0] == "127.0.0.1"
    assert fleet.address(slot)[1] == 9000 + "abc".index(slot.server.name)


def test_a_new_server_gets_nothing_before_its_first_good_check():
    made = Made(names="ab", checked=False)
    assert made.fleet.choose() is None

    made.fleet.checked("b", True)

    assert {made.fleet.choose().server.name for _ in range(10)} == {"b"}
    assert made.freed == 1, "whoever waits is told"


@pytest.mark.parametrize("outcome", ["ok", "client_aborted", "upstream_error", "timeout", "cut"])
def test_every_outcome_releases_once_and_is_counted(outcome):
    made = Made(penalty=0.0)
    slot = made.fleet.choose()
    made.fleet.started(slot)

    made.fleet.finished(slot, outcome, 0.02)
    made.fleet.finished(slot, outcome, 0.02)
    made.fleet.not_sent(slot, "")

    server = made.server(slot.server.name)
    assert server["outcomes"] == {**dict.fromkeys(server["outcomes"], 0), outcome: 1}
    assert (server["slots"], server["length"], server["not_sent"]) == (0, 0, 0)
    assert made.fleet.core.spurious == 2
    assert made.freed == 3 + 1, "three servers came up, one place was freed"


def test_counting_is_at_choice_not_at_connect_or_first_byte():
    made = Made(names="ab")

    names = [made.fleet.choose().server.name for _ in range(10)]

    assert Counter(names) == {"a": 5, "b": 5}


def test_a_server_that_fails_at_once_does_not_look_idle():
    """It would be the idlest of all, and get everything."""
    chosen = {}
    for penalty in (0.0, 1.0):
        made = Made("jsq", "abcd", failures=0, penalty=penalty)
        busy, counts = [], Counter()
        for step in range(400):  # 100 tasks a second, 20 ms each but at a, where all fail
            made.after(0.01)
            while busy and busy[0][0] <= step:
                made.fleet.finished(busy.pop(0)[1], "ok", 0.02)
            slot = made.fleet.choose()
            counts[slot.server.name] += 1
            if slot.server.name == "a":
                made.fleet.finished(slot, "upstream_error", 0.0)
            else:
                busy.append((step + 2, slot))
        chosen[penalty] = counts["a"]

    assert chosen[0.0] > 100
    assert chosen[1.0] <= 10


def test_a_penalty_ends_and_leaves_nothing():
    made = Made(failures=0, penalty=2.0)
    for _ in range(3):
        slot = made.fleet.choose("b" if made.server("a")["length"] else None)
        made.fleet.finished(slot, "timeout", 1.0)
    assert sum(made.fleet.core.lengths().values()) == 3
    assert sum(made.fleet.slots(name) for name in "abc") == 0

    made.after(1.9)
    assert sum(made.fleet.core.lengths().values()) == 3
    made.after(0.2)

    assert sum(made.fleet.core.lengths().values()) == 0
    assert made.fleet.core.spurious == 0


def test_penalties_are_bounded():
    made = Made("random", "a", failures=0, penalty=3600.0)
    for _ in range(3 * MOST_PENALTIES):
        made.fleet.finished(made.fleet.choose(), "upstream_error", 0.0)

    assert made.fleet.core.lengths() == {"a": MOST_PENALTIES}
    made.after(3601.0)
    assert made.fleet.core.lengths() == {"a": 0}


def test_failures_eject_and_time_brings_back():
    made = Made(names="abcd", failures=3, back_off=5.0, penalty=1.0)
    held = [made.fleet.choose() for _ in range(16)]
    mine = [slot for slot in held if slot.server.name == "a"]
    for slot in mine[:3]:
        made.fleet.finished(slot, "upstream_error", 0.1)

    assert made.fleet.state("a") is State.EJECTED
    assert "a is ejected: 3 failures in a row, the last one: upstream error" in made.told()
    assert all(made.fleet.choose().server.name != "a" for _ in range(20))
    assert made.server("a")["slots"] == 1, "what is still there is seen"

    made.after(5.1)

    assert made.fleet.state("a") is State.UP
    assert made.fleet.core.lengths()["a"] == 1
    made.fleet.finished(mine[3], "ok", 0.1)
    assert made.fleet.core.lengths()["a"] == 0


@pytest.mark.parametrize(
    ("why", "counts"),
    [
        ("it could not be reached: connection refused", True),
        ("the connection had been closed before", False),
        ("client_aborted", False),
        ("cut", False),
    ],
)
def test_only_what_is_the_servers_fault_counts_as_its_failure(why, counts):
    made = Made(names="a", penalty=0.0)
    made.fleet.not_sent(made.fleet.choose(), why)

    assert made.server("a")["failures"] == int(counts)
    assert made.server("a")["length"] == 0


def test_answers_that_say_the_server_is_broken_eject_it_too():
    made = Made(names="abcd", failures=2, penalty=0.0)
    for status in (503, 200, 500, 404, 500):
        made.fleet.finished(slot := made.fleet.choose(), "ok", 0.001)
        assert slot is not None
        made.fleet.log(exchange("a", status))
    assert made.fleet.state("a") is State.UP

    made.fleet.log(exchange("a", 502))

    assert made.fleet.state("a") is State.EJECTED
    assert made.server("a")["statuses"]["5xx"] == 4
    unwatched = Made(names="abcd", failures=2, bad_status=0)
    for _ in range(9):
        unwatched.fleet.log(exchange("a", 500))
    assert unwatched.fleet.state("a") is State.UP


def test_a_drained_server_is_seen_until_it_is_empty():
    made = Made(names="ab", failures=0, penalty=60.0)
    held = [made.fleet.choose() for _ in range(4)]
    mine = [slot for slot in held if slot.server.name == "a"]

    made.fleet.remove("a")
    assert made.server("a")["state"] == "draining"
    assert made.server("a")["slots"] == 2
    assert all(made.fleet.choose().server.name == "b" for _ in range(5))
    made.fleet.checked("a", True)
    made.fleet.finished(mine[0], "upstream_error", 0.1)
    assert made.server("a")["slots"] == 1
    with pytest.raises(EquipoiseError, match="'a' is there already"):
        made.fleet.add(Backend("a", "127.0.0.1", 9000))
    made.fleet.finished(mine[1], "ok", 0.1)

    assert list(made.fleet.backends) == ["b"]
    assert made.told()[-2:] == ["a is draining: being removed", "a is gone"]
    made.fleet.add(Backend("a", "127.0.0.1", 9000))
    made.fleet.checked("a", True)
    assert made.fleet.core.lengths()["a"] == 0


def test_removing_an_idle_or_unknown_server():
    made = Made(names="ab")
    made.fleet.remove("a")

    assert list(made.fleet.backends) == ["b"]
    with pytest.raises(EquipoiseError, match="no server is called 'z'; there are: b"):
        made.fleet.remove("z")


def test_nobody_gets_more_than_its_limit_and_a_free_place_is_told():
    made = Made(names="ab", limit=2)
    held = [made.fleet.choose() for _ in range(4)]
    assert made.fleet.choose() is None
    before = made.freed

    made.fleet.finished(held[0], "ok", 0.1)

    assert made.freed == before + 1
    assert made.fleet.choose().server is held[0].server


def test_a_retry_goes_to_another_server():
    made = Made(names="abc")

    assert all(made.fleet.choose(exclude="a").server.name != "a" for _ in range(9))


def test_a_policy_with_a_clock_updates_when_it_is_time():
    made = Made("sujsq-det", "abc", period=0.5)
    slots = [made.fleet.choose() for _ in range(6)]
    for slot in slots:
        made.fleet.finished(slot, "ok", 0.1)
    assert made.fleet.core.messages()["update"] == 0
    made.after(0.4)
    assert made.fleet.core.messages()["update"] == 0

    made.after(0.2)

    assert made.fleet.core.messages()["update"] == 3
    assert made.server("a")["most"] == 0
    with pytest.raises(EquipoiseError, match="has a clock"):
        Made("sujsq-det")


def test_a_moved_threshold_is_told():
    made = Made("learning-threshold(alpha=0.6)", "ab")
    for _ in range(9):
        made.fleet.choose()
    made.after(0.1)

    level = made.fleet.core.announcement
    assert made.told()[-1] == f"threshold 0 -> {level}"
    assert made.fleet.status()["threshold"] == level > 0
    assert Made("jsq").fleet.status()["threshold"] is None


def test_exchanges_are_counted_and_passed_on_to_the_log():
    made = Made(names="ab")
    records = [
        exchange("a"),
        exchange("b", 404, retries=1),
        exchange(None, 503, "unavailable"),
        exchange(None, 400, "refused"),
        exchange("gone", 200),
    ]
    for record in records:
        made.fleet.log(record)

    status = made.fleet.status()
    assert made.records == records
    assert (status["exchanges"], status["retries"]) == (5, 1)
    assert status["refused"] == {"unavailable": 1, "refused": 1}
    assert made.server("b")["statuses"]["4xx"] == 1
    assert status["mean_seconds"] == pytest.approx(0.004)


def test_latencies_fall_into_their_buckets():
    made = Made("random", "a")
    for seconds in (0.0005, 0.001, 0.0011, 400.0):
        made.fleet.finished(made.fleet.choose(), "ok", seconds)

    buckets = made.fleet.backends["a"].buckets
    assert (buckets[0], buckets[1], buckets[-1], sum(buckets)) == (2, 1, 1, 4)


def test_a_server_that_comes_back_starts_slowly():
    """It gets its growing part of what the others have, and one more; then no limit."""
    made = Made("jsq", "abc", slow_start=10.0, penalty=0.0, fall=1, rise=1)
    made.after(11.0)  # at first all start together, and nobody is held back
    made.fleet.checked("a", False, "refused")
    held = [made.fleet.choose() for _ in range(20)]  # ten at each of the others
    made.fleet.checked("a", True)
    assert made.server("a")["state"] == "slow start"

    def filled():
        held.extend(made.fleet.choose() for _ in range(12))
        count = made.fleet.slots("a")
        for slot in held[20:]:
            made.fleet.finished(slot, "ok", 0.1)
        del held[20:]
        return count

    counts = [filled()]
    for _ in range(4):
        made.after(2.0)
        counts.append(filled())
    made.after(2.1)

    assert counts == [1, 3, 5, 7, 9]
    assert filled() in (10, 11), "as the others"
    assert made.server("a")["state"] == "up"


def test_all_that_start_together_are_not_held_back():
    made = Made("jsq", "ab", slow_start=10.0)

    assert Counter(made.fleet.choose().server.name for _ in range(20)) == {"a": 10, "b": 10}


def test_a_slow_start_keeps_to_the_servers_own_limit():
    made = Made("jsq", "ab", slow_start=1.0, limit=3, fall=1, rise=1)
    made.after(2.0)
    made.fleet.checked("a", False)
    made.fleet.checked("a", True)
    assert Counter(made.fleet.choose().server.name for _ in range(4)) == {"a": 1, "b": 3}

    made.after(2.0)

    assert [made.fleet.choose().server.name for _ in range(2)] == ["a", "a"]
    assert made.fleet.choose() is None


def test_a_policy_that_fails_chooses_nobody_and_that_is_told_once():
    broken = Policy("mine", choose=lambda state, fleet, rng: fleet.size)
    made = Made(broken, "ab")

    assert [made.fleet.choose() for _ in range(3)] == [None] * 3
    failed = [text for text in made.told() if text.startswith("the policy failed")]
    assert len(failed) == 1
    assert "choose returned a server that does not exist" in failed[0]
    assert made.fleet.core.lengths() == {"a": 0, "b": 0}


def test_two_servers_of_one_name_are_refused():
    with pytest.raises(EquipoiseError, match="'a' is there already"):
        Made(names="aa")
