"""Nothing leaks, nothing is answered twice: a short form of what `make verify` runs at length."""

from live.chaos import chaos, check
from live.wire import run


def test_two_thousand_requests_with_leaving_clients_failing_and_killed_servers_leave_nothing():
    """The stage demands at its end that every slot is back and every connection closed."""
    found = run(chaos(2000, kills=4), seconds=60)

    check(found, 2000)
    before, after = found.objects
    assert after < before + 3000


def test_what_may_not_be_repeated_is_done_once_at_most():
    from live.chaos import posts

    done = run(posts(1000, kills=8), seconds=60)

    assert max(done) == 1
    assert sum(done) > 900
