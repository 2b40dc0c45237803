"""The policies: one file each, all in `POLICIES`.

To add one, write its file, import its `POLICY` here, put it in `POLICIES` and write its page.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ..errors import PolicyError
from . import (
    aujsq_det,
    aujsq_exp,
    jbt,
    jiq,
    jsq,
    jsq_d,
    learning_threshold,
    ll_d,
    random,
    round_robin,
    sampled,
    sed,
    sparsified_jiq,
    stale_jsq,
    sujsq_det,
    sujsq_exp,
    threshold,
    total_threshold,
)
from .base import (
    NO_PARAMS,
    NoParams,
    Param,
    Policy,
    ask,
    ask_work,
)
from .spec import PolicySpec, parse, spec, split_list, unique_labels
from .user import load_policy

_FILES = (
    random,
    round_robin,
    jsq,
    jsq_d,
    sampled,
    sed,
    ll_d,
    jiq,
    sparsified_jiq,
    jbt,
    threshold,
    learning_threshold,
    total_threshold,
    sujsq_det,
    sujsq_exp,
    aujsq_det,
    aujsq_exp,
    stale_jsq,
)
POLICIES: dict[str, Policy] = {file.POLICY.name: file.POLICY for file in _FILES}


def _constructors() -> dict[str, Any]:
    """`Threshold`, `JsqD`, ...: each policy's name in camel case, from its own file."""
    found = {}
    for file in _FILES:
        name = "".join(word.capitalize() for word in file.POLICY.name.split("-"))
        found[name] = getattr(file, name)
    return found


CONSTRUCTORS = _constructors()


def resolve(written: str | Mapping[str, Any] | Policy | PolicySpec) -> PolicySpec:
    """Return the policy that was written, with its parameters checked.

    Parameters
    ----------
    written
        A name or label (`"jsq"`, `"threshold(level=9)"`), a user's `"file.py:NAME"`, a table
        (`{"name": "jsq-d", "d": 3}`), a `Policy`, or what a constructor returned.

    Raises
    ------
    PolicyError
        If no policy is called so, or a parameter is unknown, missing or not allowed.
    """
    if isinstance(written, PolicySpec):
        return written
    if isinstance(written, Policy):
        return spec(written)
    if isinstance(written, Mapping):
        params = {key: value for key, value in written.items() if key != "name"}
        name, more = parse(str(written.get("name", "")))
        params = {**more, **params}
    else:
        name, params = parse(str(written))
    if ":" in name:
        path, _, attribute = name.rpartition(":")
        made = spec(load_policy(path, attribute), **params)
        return PolicySpec(made.policy, made.params, name)
    if name not in POLICIES:
        near = difflib.get_close_matches(name, POLICIES, 1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        names = ", ".join(POLICIES)
        raise PolicyError(f"no policy is called '{name}'{hint}; the policies are: {names}")
    return spec(POLICIES[name], **params)


__all__ = [
    "CONSTRUCTORS",
    "NO_PARAMS",
    "POLICIES",
    "NoParams",
    "Param",
    "Policy",
    "PolicySpec",
    "ask",
    "ask_work",
    "load_policy",
    "parse",
    "resolve",
    "spec",
    "split_list",
    "unique_labels",
]
