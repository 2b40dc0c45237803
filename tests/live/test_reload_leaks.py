"""Nothing is dropped and nothing leaks under reloads: a short form of what `make verify` runs."""

from live.reloading import check, load
from live.wire import run


def test_two_thousand_requests_under_reloads_and_changes_are_all_answered(tmp_path):
    found = run(load(tmp_path, 2000, every=0.02), seconds=60)

    check(found, 2000)
    assert found.reloads >= 5  # as many as find room beside the requests
    assert found.changes >= 5
    before, after = found.objects
    assert after < before + 3000
