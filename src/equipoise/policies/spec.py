"""A policy with its parameters, however it was written: a name, a label, a table, a constructor.

"jsq"   "threshold(level=9)"   "mine.py:NEIGHBOURS(reach=2)"   {"name": "jsq-d", "d": 3}
Threshold(level=9)             a Policy                        a PolicySpec
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import PolicyError
from .base import REQUIRED, Policy

_LABEL = re.compile(r"\s*(?P<name>[^()\s][^()]*?)\s*(?:\((?P<inside>.*)\))?\s*", re.DOTALL)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}


@dataclass(frozen=True)
class PolicySpec:
    """A policy and a value for each of its parameters."""

    policy: Policy
    params: Mapping[str, Any]
    written: str = ""  # how the user named it where that is not the policy's own name

    @property
    def label(self) -> str:
        """The name with the parameters that say something: `threshold(level=9)`."""
        said = [
            f"{name}={_written(self.params[name])}"
            for name, param in self.policy.params.items()
            if param.shown or self.params[name] != param.default
        ]
        return self.policy.name + (f"({', '.join(said)})" if said else "")

    def check(self, servers: int) -> None:
        """Refuse parameters that make no sense for so many servers.

        Raises
        ------
        PolicyError
            The policy's own reason, in one line.
        """
        reason = self.policy.check and self.policy.check(servers, **self.params)
        if reason:
            raise PolicyError(f"{self.label}: {reason}")

    def __str__(self) -> str:
        return self.label


def spec(policy: Policy, /, **given: Any) -> PolicySpec:
    """Return `policy` with these parameters, the rest at their defaults.

    Raises
    ------
    PolicyError
        For an unknown parameter, a value that is not allowed, or a required one left out.
    """
    for name in given:
        if name not in policy.params:
            has = ", ".join(policy.params) or "none"
            near = difflib.get_close_matches(name, policy.params, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise PolicyError(
                f"{policy.name} has no parameter '{name}'; its parameters are: {has}{hint}"
            )
    values = {}
    for name, param in policy.params.items():
        value = given.get(name, param.default)
        if value is REQUIRED:
            example = param.meaning if param.reads else f"write {policy.name}({name}=1)"
            raise PolicyError(f"{policy.name} needs {name}, {param.allowed()}: {example}")
        values[name] = param.check(policy.name, name, value)
    return PolicySpec(policy, values)


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Split `name(key=value, ...)` into the name and its parameters.

    Raises
    ------
    PolicyError
        If the text is not of that form.
    """
    match = _LABEL.fullmatch(text)
    if not match:
        raise PolicyError(f"'{text}' is not a policy; write it as name or name(key=value)")
    params: dict[str, Any] = {}
    for part in split_list(match["inside"] or ""):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and key and value):
            raise PolicyError(f"'{text}': '{part.strip()}' should read key=value")
        if key in params:
            raise PolicyError(f"'{text}': {key} is given twice")
        params[key] = _value(value)
    return match["name"], params


def split_list(text: str) -> list[str]:
    """Split at commas outside brackets: 'jsq,threshold(level=9, step=2)' has two parts."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def unique_labels(specs: Iterable[PolicySpec]) -> list[str]:
    """Return the label of each policy; the same one twice is refused.

    Raises
    ------
    PolicyError
        If two policies have one label: their results could not be told apart.
    """
    labels: list[str] = []
    for one in specs:
        if one.label in labels:
            raise PolicyError(f"{one.label} is listed twice; leave one out")
        labels.append(one.label)
    return labels


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("'\"")


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
