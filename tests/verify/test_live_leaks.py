"""Nothing leaks in 10^5 requests: clients leave, servers fail, hang and are killed."""

import pytest
from live.chaos import chaos, check, posts
from live.wire import run


@pytest.mark.slow
def test_a_hundred_thousand_requests_and_twenty_kills_leave_nothing():
    """About 30 s. What the collector knows of must not grow from a fifth of the way to the end."""
    found = run(chaos(100_000, kills=20), seconds=900)

    check(found, 100_000)
    before, after = found.objects
    assert after < before + 3000  # 0.04 per request would be a leak
    before, after = found.resident
    assert after < before + 20


@pytest.mark.slow
def test_what_may_not_be_repeated_is_done_once_at_most():
    done = run(posts(20_000, kills=60), seconds=300)

    assert max(done) == 1
    assert sum(done) > 19_000
