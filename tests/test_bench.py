"""The bench measures what there is today: a policy that comes is measured too."""

from bench import live, run
from equipoise.policies import POLICIES


def test_every_policy_that_can_be_live_is_timed():
    assert [spec.policy.name for spec in run.live_policies()] == [
        name for name in POLICIES if name != "ll-d"
    ]


def test_a_decision_takes_some_time():
    choose, both = run.decision(run.live_policies()[0], 100)

    assert 0 < choose < both


def test_the_proxies_are_compared_by_their_medians():
    rates = {"haproxy": [9, 10, 90], "ours": [5, 4, 1]}
    results = {
        (name, work): [live.Measured(rate, 100 / rate) for rate in runs]
        for name, runs in rates.items()
        for work in live.WORKS
    }

    text = live.report(results)

    assert (
        "ours / haproxy, 100 B: 0.40 of the requests/s, 0.40 by CPU time; goal 0.4: reached" in text
    )
    assert "envoy is not installed" in text
