"""What a command line says in a word: a service law written like a call, a curve of speeds."""

from __future__ import annotations

import ast

from equipoise.errors import ScenarioError
from equipoise.scenario.mistakes import did_you_mean, one_of
from equipoise.scenario.service import LAWS


def parse_service(text: str) -> dict[str, object]:
    """Return the [service] table that a text such as "erlang(shape=2)" stands for.

    Raises `ScenarioError` where it is not a law's name, alone or with `key = value` pairs
    in parentheses; whether the keys fit the law is checked with the scenario.
    """
    name = text.split("(", 1)[0].strip()
    if name not in LAWS:
        raise ScenarioError(
            f"service = '{text}': no such law; it must be {one_of(list(LAWS))}"
            f"{did_you_mean(name, list(LAWS))}"
        )
    try:
        # a hyphen in the name would be a minus
        tree = ast.parse("law" + text.strip()[len(name) :], mode="eval").body
        if isinstance(tree, ast.Name):
            return {"law": name}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
            pairs = {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords}
            if "None" not in pairs:  # from "**"
                return {"law": name, **pairs}
    except (SyntaxError, ValueError):
        pass
    raise ScenarioError(
        f"service = '{text}': write a law with its parameters, e.g. lognormal(mean=1, scv=4)"
    )


def parse_curve(text: str) -> list[float]:
    """Return the speeds that a text such as "1,1.6,2" stands for. Raises `ScenarioError`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ScenarioError(
            f"curve = '{text}': write the speeds with 1, 2, .. tasks with commas between them, "
            "e.g. 1,1.6,2"
        ) from None
