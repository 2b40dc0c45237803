"""Several dispatchers in what is shown, saved and refused."""

import pytest

import equipoise as eq
from equipoise.errors import EquipoiseError
from equipoise.report.advise.changes import changed_scenarios
from equipoise.report.limit import limit


def scenario(dispatchers, **more):
    return eq.Scenario.from_dict(
        {
            "servers": {"count": 8, "discipline": "fcfs"},
            "arrivals": {"law": "poisson", "load": 0.7},
            "service": {"law": "exponential"},
            "dispatchers": dispatchers,
            "run": {"tasks": 2000, "replications": 2, "warm_up": 10.0},
        }
        | more
    )


@pytest.fixture(scope="module")
def compared():
    return eq.compare(scenario({"count": 3, "hear": "own"}), ["random", "jiq"])


def test_headings_and_pages_tell_how_many_there_are(compared):
    one = eq.simulate(scenario(1), "random")
    three = eq.simulate(scenario(3), "random")

    assert "8 servers (fcfs, 1 worker each), 3 dispatchers (own counts)" in str(compared)
    assert "8 servers (fcfs, 1 worker each), 3 dispatchers " in str(three)
    assert "dispatchers" not in str(one)
    assert "one of 3 dispatchers, which counts its own tasks" in compared.page()
    assert "one of 3 dispatchers, which hears what every server tells" in three.page()
    assert "dispatchers, which" not in one.page()


def test_a_saved_comparison_knows_its_dispatchers(compared, tmp_path):
    compared.save(tmp_path / "three.json")

    loaded = eq.Comparison.load(tmp_path / "three.json")

    assert loaded.to_json()["scenario"]["dispatchers"] == {"count": 3, "hear": "own"}
    assert str(loaded).splitlines()[0] == str(compared).splitlines()[0]
    redone = loaded.redo(1, "jiq")
    value = loaded["jiq"].replications["mean_wait"][1]
    assert redone["mean_wait"].value == value


def test_a_comparison_without_its_trace_still_tells_its_dispatchers(compared, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("t,d\n" + "".join(f"{i},1\n" for i in range(50)))
    replayed = eq.compare(
        scenario(
            2,
            arrivals={"law": "trace", "file": str(trace), "time": "t"},
            service={"law": "trace", "column": "d"},
            run={"replications": 2, "warm_up": 0.0},
        ),
        ["random"],
    )
    replayed.save(tmp_path / "two.json")
    trace.unlink()

    assert ", 2 dispatchers" in str(eq.Comparison.load(tmp_path / "two.json"))


def test_theory_has_no_limit_of_several():
    with pytest.raises(EquipoiseError, match="no limit here for several dispatchers; take dispat"):
        limit(scenario(2), ["jiq"])


def test_own_counts_have_no_messages_that_could_be_late():
    kinds = {
        hear: {kind for kind, *_ in changed_scenarios(scenario({"count": 2, "hear": hear}), True)}
        for hear in ("all", "own")
    }

    assert kinds == {"all": {"load", "server", "delay"}, "own": {"load", "server"}}
