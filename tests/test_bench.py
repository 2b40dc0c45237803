"""The bench measures what there is today: a policy that comes is measured too."""

from bench import run
from equipoise.policies import POLICIES


def test_every_policy_that_can_be_live_is_timed():
    assert [spec.policy.name for spec in run.live_policies()] == [
        name for name in POLICIES if name != "ll-d"
    ]


def test_a_decision_takes_some_time():
    choose, both = run.decision(run.live_policies()[0], 100)

    assert 0 < choose < both
