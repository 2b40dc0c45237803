"""The line of health says what is wrong, worst first, in words that do not flicker."""

import pytest

from equipoise.web.words import Health, Trouble, health

DOWN = Trouble("web3", "down", "connection refused")
EJECTED = Trouble("web4", "ejected", "5 failures in a row, the last one: timeout")
SLOW = Trouble("web1", "slow start", "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((8, 8, []), Health("good", "All 8 servers serve.")),
        ((1, 1, []), Health("good", "The server serves.")),
        (
            (8, 7, [DOWN]),
            Health("watch", "7 of 8 servers serve: web3 is down.", ("web3: connection refused.",)),
        ),
        ((2, 1, [Trouble("a", "down", "")]), Health("watch", "1 of 2 servers serves: a is down.")),
        ((8, 8, [SLOW]), Health("good", "All 8 servers serve.", ("web1 starts slowly.",))),
        (
            (3, 2, [Trouble("b", "draining", "")]),
            Health("watch", "2 of 3 servers serve: b is on its way out."),
        ),
        (
            (1, 0, [Trouble("a", "new", "not checked yet")]),
            Health("bad", "No server serves: a is not up yet.", ("a: not checked yet.",)),
        ),
        (
            (2000, 1996, [DOWN, DOWN, EJECTED, EJECTED]),
            Health(
                "watch",
                "1,996 of 2,000 servers serve: web3 is down, web3 is down, 2 more do not.",
                ("web3: connection refused.", "web3: connection refused."),
            ),
        ),
    ],
)
def test_servers_are_told(given, expected):
    assert health(*given) == expected


def test_requests_that_went_wrong_are_told_from_one_in_a_hundred_on():
    assert health(2, 2, [], requests=10_000, errors=99).level == "good"
    assert health(2, 2, [], requests=20, errors=5).level == "good", "too few to be a share"
    found = health(2, 2, [], requests=10_000, errors=120)
    assert found.level == "bad"
    assert found.words == (
        "All 2 servers serve, and 1.2 % of requests went wrong in the last minute."
    )
    assert "12 %" in health(2, 2, [], requests=1000, errors=123).words
    assert "100 %" in health(2, 2, [], requests=0, errors=12).words


def test_what_else_there_is_to_say():
    waiting = health(2, 2, [], queued=1)
    assert waiting == Health(
        "watch", "All 2 servers serve.", ("1 request waits: every server that serves is full.",)
    )
    assert health(2, 0, [DOWN], queued=1200).more[-1] == "1,200 requests wait."
    deaf = health(2, 2, [], deaf=True)
    assert deaf.level == "bad"
    assert deaf.words == "All 2 servers serve, but none is heard: choices are random."
    silent = Trouble("b", "unheard", "its agent was silent for 3 s")
    assert health(3, 3, [], unheard=[silent]) == Health(
        "watch", "All 3 servers serve.", ("b is not heard: its agent was silent for 3 s.",)
    )
    assert health(9, 9, [], unheard=[silent] * 3).more == ("3 servers are not heard.",)
    one = health(1, 1, [], deaf=True)
    assert one.words == "The server serves, but it is not heard: choices are random."


def test_workers_that_do_not_answer_are_named():
    assert health(2, 2, [], workers=4, silent=[2]) == Health(
        "watch", "All 2 servers serve.", ("Worker 2 does not answer.",)
    )
    assert health(2, 2, [], workers=4, silent=[1, 2]).more == ("Workers 1 and 2 do not answer.",)
    assert health(2, 2, [], workers=4, silent=[0, 1, 2]).more == (
        "3 of the workers do not answer.",
    )
    assert health(2, 2, [], workers=2, silent=[0, 1]) == Health("bad", "No worker answers.")


def test_a_dispatcher_that_stops_says_so():
    stopping = health(2, 2, [], draining=True, under_way=3)
    assert stopping == Health("watch", "Stopping: no more requests are taken, 3 under way.")
