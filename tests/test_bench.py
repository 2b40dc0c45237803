"""The bench measures what there is today: a policy that comes is measured too."""

from bench import logs, run
from equipoise.policies import POLICIES


def test_every_policy_that_can_be_live_is_timed():
    assert [spec.policy.name for spec in run.live_policies()] == [
        name for name in POLICIES if name != "ll-d"
    ]


def test_a_decision_takes_some_time():
    choose, both = run.decision(run.live_policies()[0], 100)

    assert 0 < choose < both


def test_every_format_that_is_timed_is_read_as_it_was_written(capsys, monkeypatch):
    monkeypatch.setattr(logs, "REPETITIONS", 1)
    ratios = logs.compare_formats(lines=500)

    assert set(ratios) == set(logs.FORMATS)
    assert "traefik" in capsys.readouterr().out


def test_the_memory_for_a_log_is_measured(capsys):
    found = logs.measure_memory(gigabytes=0.005)

    assert set(found) == {"table", "rates"}
    assert all(0 < megabytes < 1000 for megabytes in found.values())
