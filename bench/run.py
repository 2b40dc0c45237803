"""How fast it is, as ratios within one run: `make bench`, or `python -m bench`.

A module per table; `python -m bench kernels` runs those whose name begins so. An event is an
arrival or a departure. Everything runs on one processor, times are CPU times, each figure the
median of several repetitions, interleaved with those it is compared with, so that a busy machine
slows both. Nothing here fails: a goal is reached or missed, and the exit code is 0. What is not
installed (a C compiler, Ciw, cimba) is left out with a line that says so.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import numba
import numpy as np

from bench.against_c import compare_with_c
from bench.decisions import time_decisions
from bench.inlining import compare_inlining
from bench.kernels import compare_kernels
from bench.memory import measure_memory
from bench.messages import time_messages
from bench.own_policy import compare_with_users_policy
from bench.peers import compare_with_peers
from bench.sizes import compare_sizes
from bench.start import time_start
from bench.timing import pin

SECTIONS: dict[str, Callable[[], None]] = {
    "C": compare_with_c,
    "Peers": compare_with_peers,
    "Sizes": compare_sizes,
    "Memory": measure_memory,
    "Kernels": compare_kernels,
    "User's policy": compare_with_users_policy,
    "Start": time_start,
    "Decisions in the live core": time_decisions,
    "Messages of agents": time_messages,
    "Inlining": compare_inlining,
}
MODULES = (
    "slotted",
    "sparse",
    "occupancy",
    "calendar",
    "logs",
    "parallel",
)  # tables of their own, each with a main()


def sections() -> dict[str, Callable[[], None]]:
    """Every table there is, by name."""
    found = dict(SECTIONS)
    for name in MODULES:
        if find_spec(f"bench.{name}"):
            found[name.capitalize()] = import_module(f"bench.{name}").main
    return found


def main() -> None:
    """Run every table, or those whose names begin with an argument."""
    began = time.perf_counter()
    everywhere = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    processor = pin()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}; "
        f"{os.cpu_count()} cores{load}"
        + ("" if processor is None else f"; all on processor {processor}")
    )
    wanted = sys.argv[1:]
    for name, section in sections().items():
        if not wanted or any(name.lower().startswith(word.lower()) for word in wanted):
            if name == "Parallel" and everywhere:  # the one that needs more than one processor
                os.sched_setaffinity(0, everywhere)
            start = time.perf_counter()
            print(f"\n{name}\n")
            section()
            print(f"({time.perf_counter() - start:.0f} s)")
    print(f"\n{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
