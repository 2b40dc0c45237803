"""The figure of docs/kernel-events.md is drawn by the script beside it, and its table is true."""

import importlib.util
import io
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def script():
    path = DOCS / "pictures" / "message_delay.py"
    made = importlib.util.spec_from_file_location("message_delay", path)
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_figure_shows_what_was_measured(script):
    found = script.measure(tasks=8000, duration=30.0, runs=2)

    figure = script.draw(found)
    out = io.BytesIO()
    figure.savefig(out, format="svg")

    left, right = figure.axes
    assert [len(axes.get_lines()) for axes in (left, right)] == [2, 1]
    drawn = right.get_lines()[0].get_ydata()
    assert drawn.tolist() == [mean for mean, _ in found["threshold"]]
    for curve in found.values():
        assert curve[0][0] < curve[3][0] < curve[-1][0]  # at delays 0, 0.3, 3
    assert b"<svg" in out.getvalue()


@pytest.mark.slow
def test_the_table_of_the_page_is_what_the_script_prints(script):
    page = (DOCS / "kernel-events.md").read_text(encoding="utf-8")

    assert script.table(script.measure()) in page
