"""A user's own policy, from `file.py:NAME`, as good as a built-in one.

The file becomes the module `equipoise_user_<stem>`: a stable name, so that its kernels are found
on disk in the next process. A policy is tried in plain Python before it is compiled: compiled
code does not check indices, so a mistake there would not stop, it would corrupt memory.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EquipoiseError, PolicyError
from ..rng import below, make_rng
from .base import Policy
from .spec import PolicySpec
from .steps import OUT_OF_RANGE, make_steps, make_world

TRIAL_EVENTS = 300
_loaded: dict[tuple[Path, float, int], Any] = {}


def load_policy(path: str, name: str) -> Policy:
    """Return the `Policy` called `name` in a Python file.

    Raises
    ------
    PolicyError
        If the file cannot be read or run, or has no such policy.
    """
    file = Path(path)
    if not file.is_file():
        raise PolicyError(f"{path}: no such file; a user's policy is written file.py:NAME")
    module = _load_module(file.resolve(), path)
    policy = getattr(module, name, None)
    if not isinstance(policy, Policy):
        have = ", ".join(n for n, v in vars(module).items() if isinstance(v, Policy)) or "none"
        raise PolicyError(f"{path} has no policy called {name}; the policies in it are: {have}")
    return policy


def _load_module(file: Path, shown: str) -> Any:
    status = file.stat()
    key = (file, status.st_mtime, status.st_size)
    if key not in _loaded:
        name = f"equipoise_user_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # numba finds the classes of a cached kernel by this name
        try:
            # from the text, never from a .pyc that a quick edit can leave stale
            exec(compile(file.read_bytes(), str(file), "exec"), vars(module))
        except EquipoiseError as error:
            raise PolicyError(f"{shown}: {error}") from error
        except Exception as error:
            raise PolicyError(f"{shown}{_line_in(error, str(file))}: {_say(error)}") from error
        _loaded[key] = module
    return _loaded[key]


def try_plain(spec: PolicySpec, servers: int) -> None:
    """Run a policy for a few hundred events in plain Python, on as many servers as it will have.

    Raises
    ------
    PolicyError
        If it raises, names a server that does not exist, or sees what it may not.
    """
    policy, where = spec.policy, spec.written or spec.policy.name
    rng = make_rng(1)
    present: list[int] = []
    try:
        world = make_world(
            policy,
            dict(spec.params),
            np.zeros(servers, np.int64),
            choice_rng=make_rng(2),
            server_rng=make_rng(3),
        )
        steps = make_steps(policy, True)
        for event in range(TRIAL_EVENTS):
            if present and event % 3 == 2:
                steps.depart(world, present.pop(below(rng, len(present))))
                continue
            server = steps.arrive(world)
            if server == OUT_OF_RANGE:
                raise PolicyError(out_of_range(where, servers))
            present.append(int(server))
    except EquipoiseError:
        raise
    except Exception as error:
        file = policy.choose.__code__.co_filename
        hint = ""
        if isinstance(error, AttributeError) and "Blind" in str(error):
            hint = "; a policy that asks for lengths must say so: Policy(..., probes=True)"
        raise PolicyError(f"{where}{_line_in(error, file)}: {_say(error)}{hint}") from error


def out_of_range(where: str, servers: int) -> str:
    """Say that a policy named a server that does not exist."""
    return (
        f"{where}: choose returned a server that does not exist; "
        f"servers are whole numbers from 0 to {servers - 1}"
    )


def _say(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _line_in(error: BaseException, file: str) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f" line {error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" line {lines[-1]}" if lines else ""
