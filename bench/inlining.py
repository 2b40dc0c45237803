"""What it costs if policies and indices are called instead of forced into the kernel's loop."""

from __future__ import annotations

import tempfile

from bench.timing import child

INLINED = """
import sys, time
import equipoise.compile as compiling
if sys.argv[1] == "called":
    njit = compiling.njit
    compiling.njit = lambda **options: njit(**options | {"forceinline": False})
from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import replicate
scenario = Scenario.simple(
    servers=500, discipline="pool", load=5.5, tasks=1_000_000, start="balanced", replications=1
)
rates = []
for _ in range(6):
    began = time.process_time()
    record = replicate(scenario, resolve("jsq"), 0, kernel="memoryless")
    rates.append(record.events / (time.process_time() - began))
print(sorted(rates[1:])[2])
"""


def compare_inlining() -> None:
    """Print the ratio. The cache does not know of the difference: each form has its own folder."""
    rates = {}
    for form in ("inlined", "called"):
        with tempfile.TemporaryDirectory() as folder:
            rates[form] = float(child(INLINED, form, EQUIPOISE_CACHE=folder))
    ratio = rates["inlined"] / rates["called"]
    print(f"jsq on 500 pools: policies forced inline are {ratio:.1f} times as fast as called ones")
