"""How soon a process that finds its kernels on disk starts the first of them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import equipoise

pytestmark = pytest.mark.slow

COMPARE = """
import sys, time
from equipoise import Scenario, compare
from equipoise.sim import driver
when, found = [], driver.Driver.compile
def timed(driver):
    found(driver)
    when.append(time.time())
driver.Driver.compile = timed
s = Scenario.simple(servers=10, load=0.8, tasks=500, replications=3, warm_up=0.0)
compare(s, ["random", "round-robin", "jsq", "jsq-d", "jiq", "jbt", "threshold(level=1)",
            "learning-threshold"])
print(when[0] - float(sys.argv[1]))
"""


def test_a_warm_process_starts_its_first_kernel_within_a_second():
    """From before Python itself starts; the best of ten, since others share the machine."""
    environment = {**os.environ, "PYTHONPATH": str(Path(equipoise.__file__).parents[1])}
    waits = []
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-c", COMPARE, str(time.time())],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        waits.append(float(done.stdout))

    assert min(waits) < 1.0
