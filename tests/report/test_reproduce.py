"""The papers' figures: their numbers against those published, and how they are told."""

import json

import numpy as np
import pytest

from equipoise.errors import EquipoiseError
from equipoise.report.reproduce import FIGURES, about, reproduce
from equipoise.report.reproduce.base import Row

# Figures whose references were published or are exact: equal, within the errors of both.
PUBLISHED = ("settling", "near", "shares", "varying")


@pytest.fixture(scope="module")
def shares():
    return reproduce("shares", runs=6)


def test_every_figure_says_what_it_shows():
    for name in FIGURES:
        assert 20 < len(about(name)) <= 100
        assert about(name).endswith(".")


def test_numbers_stand_beside_the_authors_with_their_errors(shares):
    rows = [row for row in shares.rows if row.source]

    assert len(rows) == 6
    assert all(row.apart <= 4 for row in rows)
    # the shares of one policy at 9, 10 and 11 leave out no tasks
    assert sum(row.value for row in rows[:3]) == pytest.approx(1, abs=1e-3)
    assert "authors' data" in shares.text()
    assert "+- is one standard error; seed 1" in shares.text()


def test_a_figure_made_again_is_the_same(shares):
    again = reproduce("shares", runs=6)

    assert again.to_json() == shares.to_json()
    assert json.loads(json.dumps(shares.to_json()))["name"] == "shares"


def test_more_runs_only_add_to_those_there_were(shares):
    """Each run has its own seed: the same six are among ten."""
    more = reproduce("shares", runs=10)

    assert more.rows[0].value != shares.rows[0].value
    assert more.rows[0].value == pytest.approx(shares.rows[0].value, abs=5 * more.rows[0].error)


def test_errors_and_distances_are_those_of_both_numbers():
    row = Row("x", 1.0, 0.3, 2.0, 0.4, "somebody")

    assert row.apart == pytest.approx(2.0)
    assert np.isnan(Row("x", 1.0, 0.3, 2.0, 0.4, "a limit", limit=True).apart)
    assert np.isnan(Row("x", 1.0, 0.3).apart)


def test_pictures_name_their_axes(shares, tmp_path):
    shares.picture(tmp_path / "shares.svg")

    assert "<svg" in (tmp_path / "shares.svg").read_text()[:600]
    assert all(axes.has_data() for axes in shares.plot().axes)


def test_what_does_not_exist_is_refused_in_one_line():
    with pytest.raises(EquipoiseError, match="no figure is called 'nothing'; there are settling"):
        reproduce("nothing")
    with pytest.raises(EquipoiseError, match="one run alone has no error"):
        reproduce("shares", runs=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers_are_met_within_four_standard_errors(name):
    found = reproduce(name)

    told = [row for row in found.rows if not np.isnan(row.apart)]
    assert len(told) >= 4
    assert [row.what for row in told if row.apart > 4] == []


@pytest.mark.slow
def test_sparse_news_beat_two_choices_at_a_quarter_of_the_messages_and_stale_ones_herd():
    rows = {row.what: row for row in reproduce("sparse-tradeoff").rows}

    sparse, two = rows["load 0.7: sujsq-det(delta=0.7)"], rows["load 0.7: jsq-d(d=2)"]
    assert two.value - sparse.value > 4 * np.hypot(two.error, sparse.error)
    for load, delta in ((0.7, 0.7), (0.9, 0.9)):
        stale = rows[f"load {load}: stale-jsq(delta={delta})"]
        own = rows[f"load {load}: sujsq-det(delta={delta})"]
        assert stale.value > 2 * own.value
    # points where the fixed point is a good test and n = 1000 is many
    for what in ("sujsq-det(delta=0.7)", "sujsq-det(delta=0.35)", "aujsq-det(delta=0.7)"):
        row = rows[f"load 0.7: {what}"]
        assert abs(row.value - row.reference) <= 4 * row.error + 10 / 1000


@pytest.mark.slow
def test_at_its_threshold_the_wait_falls_like_one_over_the_root_of_n():
    powers = [row for row in reproduce("sparse-vanishing").rows if "power of n" in row.what]

    assert len(powers) == 6
    assert all(-0.75 < row.value < -0.3 for row in powers)
