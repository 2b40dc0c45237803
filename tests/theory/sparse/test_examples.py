"""What the docstrings and the page show is what comes out."""

import doctest
import importlib
import pkgutil
import textwrap
from pathlib import Path

import pytest

from equipoise.theory import sparse

MODULES = [
    sparse.__name__,
    *(f"{sparse.__name__}.{m.name}" for m in pkgutil.iter_modules(sparse.__path__)),
]
PAGE = Path(__file__).parents[3] / "docs" / "theory-sparse-feedback.md"


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_do_what_they_say(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_answer_on_the_page_is_the_one_given():
    shown = " ".join(PAGE.read_text(encoding="utf-8").split())

    assert " ".join(textwrap.wrap(sparse.recommend(0.8, 0.3).verdict)) in shown


@pytest.mark.parametrize("budget", [0.05, 0.1, 0.3, 0.5, 0.7])
def test_the_table_on_the_page_is_what_is_computed(budget):
    """To the three digits printed."""
    lines = PAGE.read_text(encoding="utf-8").split("| messages per task |")[1].splitlines()
    column = [float(x) for x in lines[0].strip(" |").split("|")].index(budget) + 1
    table = {}
    for line in lines[2:10]:
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        table[cells[0]] = cells[column]
    for option in sparse.recommend(0.9, budget).options:
        idle_only = ("idle_only", "true") in option.parameters
        name = option.policy.replace("-jiq", " jiq").replace("round-robin", "round robin")
        name += ", idle servers only" if idle_only else ""
        if name != "random":
            assert float(table[name]) == pytest.approx(option.mean_wait, rel=5e-3), name
