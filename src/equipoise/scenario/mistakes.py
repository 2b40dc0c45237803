"""Every mistake in a scenario as one plain line: where, what, what would be right.

The models are checked by pydantic, whose texts speak of types and validators; here they
are turned into sentences about the file. A check of ours that concerns several keys
raises `Mistakes`, so that one look at the file finds them all.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from equipoise.errors import ScenarioError

Key = tuple[str | int, ...]

# What to write where a key is missing.
HINTS: dict[Key, str] = {
    ("servers",): "add a [servers] table with count and discipline",
    ("arrivals",): 'add an [arrivals] table, e.g. law = "poisson" and rate = 3.0 (tasks/s)',
    ("service",): 'add a [service] table, e.g. law = "exponential" and mean = 1.0 (s)',
    ("count",): "how many servers, e.g. count = 20",
    (
        "discipline",
    ): '"pool" (all tasks at once), "fcfs" (first come, first served) or "ps" (shared)',
    ("file",): 'the path of the file, e.g. file = "trace.csv"',
    ("shape",): "a whole number, e.g. shape = 2",
    ("index",): "how fast the tail falls, e.g. index = 1.5",
    ("initial",): "the chance to start in each phase, e.g. initial = [1.0, 0.0]",
    ("generator",): "a row for each phase, e.g. generator = [[-2.0, 1.0], [0.0, -0.5]]",
    ("amplitude",): "how far the rate goes above and below its mean, e.g. amplitude = 0.3",
    ("period",): "seconds from peak to peak, e.g. period = 86400.0",
    ("service", "rates"): "of the phases, per second, e.g. rates = [2.0, 0.5]",
    ("scv",): "the squared coefficient of variation, e.g. scv = 4.0",
}


class Mistake(NamedTuple):
    where: Key  # from the table that is being checked
    what: str


class Mistakes(ValueError):
    """Several mistakes found by one check; each becomes a line."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("; ".join(mistake.what for mistake in self.mistakes))


def mistake(what: str, *where: str | int) -> Mistakes:
    """Return one mistake, to be raised; `where` is relative to the table being checked."""
    return Mistakes([Mistake(where, what)])


def did_you_mean(word: object, known: Sequence[str]) -> str:
    """Return "; did you mean 'count'?" when a known word is close, else nothing."""
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def dotted(where: Key) -> str:
    """Return a key as it is spoken of: ("policies", 2, "name") is "policies #3.name"."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f" #{part + 1}"
        else:
            text += f".{part}" if text else part
    return text


def shown(value: object) -> str:
    """Return a short picture of a value from a file."""
    text = repr(value)
    return text if len(text) <= 60 else text[:56] + " ..."


def one_of(choices: Sequence[str]) -> str:
    """Return "'pool' or 'fcfs'"."""
    quoted = [f"'{choice}'" for choice in choices]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


def translate(
    error: ValidationError,
    model: type[BaseModel],
    source: str = "",
    hints: Mapping[Key, str] = HINTS,
) -> ScenarioError:
    """Turn what pydantic found into one line per mistake, each led by `source`.

    `hints` say what to write where a key is missing.
    """
    lines: list[str] = []
    every = error.errors(include_url=False)
    for found in every:
        here = found["loc"]
        if found["type"] == "too_short" and any(
            other["loc"][: len(here)] == here and other["loc"] != here for other in every
        ):
            continue  # a list that is too short only because its wrong values do not count
        for line in _lines(found, model, hints):
            line = f"{source}: {line}" if source else line
            if line not in lines:
                lines.append(line)
    return ScenarioError("\n".join(lines))


def _lines(found: Any, model: type[BaseModel], hints: Mapping[Key, str]) -> list[str]:
    raw: Key = found["loc"]
    where, owner = _walk(model, raw)
    cause = found.get("ctx", {}).get("error")
    if isinstance(cause, Mistakes):
        return [_line((*where, *one.where), one.what) for one in cause.mistakes]
    return [_line(where, *_sentence(found, where, owner, hints))]


def _line(where: Key, what: str, value: str = "") -> str:
    if not where:
        return what
    return f"{dotted(where)}{value}: {what}"


def _walk(model: type[BaseModel], raw: Key) -> tuple[Key, type[BaseModel]]:
    """Return the key without the tags of pydantic's unions, and the model that holds its end.

    ("arrivals", "poisson", "rate") is arrivals.rate, held by Poisson.
    """
    where: list[str | int] = []
    owner = model
    options: list[type[BaseModel]] = []
    for position, part in enumerate(raw):
        if options:
            tagged = [option for option in options if law_of(option) == part]
            if tagged:
                owner, options = tagged[0], []
                continue
            owner, options = options[0], []
        where.append(part)
        field = owner.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            options = _models_in(field.annotation)
            if len(options) == 1 and position < len(raw) - 1:
                owner, options = options[0], []
    return tuple(where), owner


def law_of(model: type[BaseModel]) -> str | None:
    """Return the name by which a file chooses this model, None where there is no choice."""
    field = model.model_fields.get("law")
    return None if field is None else str(field.default)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _sentence(
    found: Any, where: Key, owner: type[BaseModel], hints: Mapping[Key, str]
) -> tuple[str, str]:
    """Return what is wrong and, where it helps, the value as " = -3"."""
    kind, context, value = found["type"], found.get("ctx", {}), found["input"]
    plain = isinstance(value, str | int | float)
    given = f" = {shown(value)}" if plain else ""
    if kind == "missing":
        hint = hints.get(where) or hints.get(where[-1:], "")
        return ("missing" + (f"; {hint}" if hint else ""), "")
    if kind == "extra_forbidden":
        known = list(owner.model_fields)
        guess = did_you_mean(where[-1], known)
        return (f"unknown key{guess or '; the keys here are ' + ', '.join(known)}", "")
    if kind == "union_tag_not_found":
        laws = _laws(owner, where)
        if isinstance(value, dict):
            return (f"law is missing; choose law = {one_of(laws)}", "")
        return (f"must be a table with law = {one_of(laws)}", given)
    if kind == "union_tag_invalid":
        laws = _laws(owner, where)
        law = value.get("law") if isinstance(value, dict) else getattr(value, "law", value)
        return (
            f"no such law: {shown(law)}; it must be {one_of(laws)}{did_you_mean(law, laws)}",
            "",
        )
    if kind == "literal_error":
        field = owner.model_fields.get(str(where[-1])) if where else None
        choices = _choices(field.annotation) if field else []
        return (f"must be {one_of(choices)}{did_you_mean(value, choices)}", given)
    limits = {
        "greater_than": ("must be more than", "gt"),
        "greater_than_equal": ("must be at least", "ge"),
        "less_than": ("must be less than", "lt"),
        "less_than_equal": ("must be at most", "le"),
    }
    if kind in limits:
        words, key = limits[kind]
        return (f"{words} {context[key]:g}", given)
    if kind in ("value_error", "assertion_error"):
        return (str(context["error"]), given)
    if kind.startswith("string"):
        return ("must be a text in quotes", given)
    if kind.startswith(("int", "float", "finite")):
        return ("must be a number", given)
    if kind.startswith("bool"):
        return ("must be true or false", given)
    if kind.startswith(("list", "tuple")):
        return ("must be a list in brackets", given)
    if kind.startswith(("dict", "model")):
        return ("must be a table", given)
    if kind == "too_short":
        least = context.get("min_length")
        return (f"needs at least {least} value{'s' * (least != 1)}", "")
    return (f"{shown(value)} does not fit here", "")


def _choices(annotation: Any) -> list[str]:
    """Return the words that a type allows, with or without None."""
    return [
        word
        for part in get_args(annotation)
        for word in ([part] if isinstance(part, str) else _choices(part))
    ]


def _laws(owner: type[BaseModel], where: Key) -> list[str]:
    field = owner.model_fields.get(str(where[-1])) if where else None
    models = _models_in(field.annotation) if field is not None else []
    return [law for model in models if (law := law_of(model)) is not None]
