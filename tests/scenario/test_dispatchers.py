"""How many dispatchers, in a file: two ways to say it, and one line for each mistake."""

import pytest

from equipoise.errors import ScenarioError
from equipoise.scenario import Dispatchers, Scenario


def tables(**more):
    return {
        "servers": {"count": 8, "discipline": "fcfs"},
        "arrivals": {"law": "poisson", "load": 0.7},
        "service": {"law": "exponential"},
        **more,
    }


def test_a_number_is_short_for_a_table():
    assert Scenario.from_dict(tables()).dispatchers == Dispatchers(count=1, hear="all")
    assert Scenario.from_dict(tables(dispatchers=4)).dispatchers == Dispatchers(count=4)
    own = {"count": 4, "hear": "own"}
    assert Scenario.from_dict(tables(dispatchers=own)).dispatchers == Dispatchers(**own)


def test_both_ways_stand_in_a_file(tmp_path):
    rest = """
[servers]
count = 8
discipline = "fcfs"
[arrivals]
law = "poisson"
load = 0.7
[service]
law = "exponential"
"""
    path = tmp_path / "one.toml"
    path.write_text(f"dispatchers = 2\n{rest}")
    short = Scenario.from_toml(path)
    path.write_text(f'{rest}[dispatchers]\ncount = 2\nhear = "own"\n')

    assert short.dispatchers == Dispatchers(count=2)
    assert Scenario.from_toml(path).dispatchers == Dispatchers(count=2, hear="own")


def test_only_several_have_something_to_hear():
    assert not Dispatchers(count=1, hear="own").own
    assert not Dispatchers(count=1).several
    assert Dispatchers(count=2, hear="own").own


NUMBER = 'must be a whole number of at least 1, or a table such as {count = 4, hear = "own"}'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"dispatchers": 0}, f"dispatchers = 0: {NUMBER}"),
        ({"dispatchers": 2.5}, f"dispatchers = 2.5: {NUMBER}"),
        ({"dispatchers": True}, f"dispatchers = True: {NUMBER}"),
        ({"dispatchers": "4"}, f"dispatchers = '4': {NUMBER}"),
        ({"dispatchers": []}, f"dispatchers: {NUMBER}"),
        ({"dispatchers": float("inf")}, f"dispatchers = inf: {NUMBER}"),
        ({"dispatchers": {"count": 0}}, "dispatchers.count = 0: must be at least 1"),
        ({"dispatchers": {"cont": 2}}, "dispatchers.cont: unknown key; did you mean 'count'?"),
        (
            {"dispatchers": {"count": 2, "hear": "some"}},
            "dispatchers.hear = 'some': must be 'all' or 'own'",
        ),
        (
            {
                "dispatchers": 2,
                "servers": {"count": 2, "discipline": "fcfs", "limit": 2, "queue": 1},
            },
            "servers.queue: tasks wait at one dispatcher; remove it, or dispatchers",
        ),
        (
            {
                "dispatchers": 2,
                "servers": {"discipline": "slotted", "speeds": [0.5, 0.5]},
                "arrivals": {"law": "slots", "jobs": "poisson", "mean": 0.5},
                "service": {"law": "slots", "jobs": "bernoulli"},
            },
            "dispatchers: in slotted time there is one dispatcher; remove it",
        ),
        (
            {"dispatchers": {"count": 2, "hear": "own"}, "messages": {"delay": 0.1}},
            'messages: dispatchers that hear = "own" count for themselves, so that no message '
            'takes time; remove it, or hear = "all"',
        ),
    ],
)
def test_a_mistake_is_one_line(more, said):
    with pytest.raises(ScenarioError) as error:
        Scenario.from_dict(tables(**more))

    assert str(error.value) == said


def test_the_number_of_dispatchers_goes_with_every_change():
    several = Scenario.from_dict(tables(dispatchers=3))

    assert several.with_run(seed=7).dispatchers == Dispatchers(count=3)
    assert Scenario.from_dict(several.to_dict()) == several
    assert "dispatchers" not in Scenario.from_dict(tables()).to_dict()
