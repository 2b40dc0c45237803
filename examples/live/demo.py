"""Policies side by side in front of real servers, and what the simulator says of the same tasks.

`python -m examples.live.demo`, which is `make demo-live`. Four servers on 127.0.0.1 do one task at
a time, exponential of mean 10, 10, 10 and 20 ms; the dispatcher, `equipoise serve`, stands in front
of them under one policy after the other; requests come in a Poisson stream of 160 a second. The
times of all arrivals and the times that the servers really took are recorded. The simulator replays
that record under the same policy with the same coins; its mean, and the time of a request that
needs no work, is the prediction that is held against the measured mean. Beside them stands the
model: the stationary mean of Poisson arrivals and exponential service. Nothing listens on other
interfaces, and everything is stopped at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equipoise.policies import resolve
from equipoise.scenario import Scenario
from equipoise.sim.run import RESPONDED, RESPONSES, replicate

from .load import Load, Request, poisson

ROOT = Path(__file__).parents[2]
MEANS = (0.010, 0.010, 0.010, 0.020)  # s
RATE = 160.0  # tasks a second: 40 each under random, and the slow server does 50
POLICIES = ("random", "round-robin", "jsq-d(d=2)", "threshold(level=1)", "jsq")


class Result(NamedTuple):
    """What was seen of one policy. Times in seconds."""

    policy: str
    tasks: int
    measured: float  # mean time of a request
    replayed: float  # mean of the simulator for the same tasks
    own: float  # mean time of a request without work
    model: float  # stationary mean
    model_error: float  # its standard error, 0 where it is exact

    @property
    def predicted(self) -> float:
        """What the simulator says, and what a request takes besides."""
        return self.replayed + self.own

    @property
    def error(self) -> float:
        """Of the prediction, as a fraction of what was measured."""
        return self.predicted / self.measured - 1


def scenario(arrivals: dict[str, object], service: dict[str, object], **run: object) -> Scenario:
    """Return the four servers with this traffic; sizes are times at speed 1."""
    return Scenario.from_dict(
        {
            "servers": {"discipline": "fcfs", "speeds": [MEANS[0] / mean for mean in MEANS]},
            "arrivals": arrivals,
            "service": service,
            "run": run,
        }
    )


def replay(policy: str, tasks: list[Request], seed: int) -> float:
    """Return the mean time of these tasks in the simulator, s.

    The coins are those of the first replication of this seed, as in a dispatcher of this seed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.csv"
        rows = [f"{task.sent!r},{task.service * MEANS[0] / task.mean!r}" for task in tasks]
        file.write_text("time,size\n" + "\n".join(rows) + "\n")
        traffic = {"law": "trace", "file": str(file), "time": "time"}
        end = tasks[-1].sent - tasks[0].sent + 60.0  # all of them finish
        record = replicate(
            scenario(traffic, {"law": "trace", "column": "size"}, duration=end, seed=seed),
            resolve(policy),
            0,
            kernel="events",
        )
    assert record.finished == len(tasks)
    return float(record.sums[:, RESPONSES].sum() / record.sums[:, RESPONDED].sum())


def model(policy: str) -> tuple[float, float]:
    """Return the stationary mean time of a task, s, and its standard error."""
    if policy == "random":  # M/M/1 at each
        return float(np.mean([1 / (1 / mean - RATE / len(MEANS)) for mean in MEANS])), 0.0
    traffic = {"law": "poisson", "rate": RATE}
    runs = scenario(traffic, {"law": "exponential", "mean": MEANS[0]}, tasks=600_000)
    found = []
    for replication in range(8):
        record = replicate(runs, resolve(policy), replication, kernel="events")
        found.append(record.sums[:, RESPONSES].sum() / record.sums[:, RESPONDED].sum())
    return float(np.mean(found)), float(np.std(found, ddof=1) / len(found) ** 0.5)


@contextmanager
def started(arguments: list[str], folder: Path) -> Iterator[str]:
    """Start a Python process; give its first line, and stop it in the end."""
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (shown only where it does not start)
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=folder,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
        start_new_session=True,  # Ctrl-C is for us; we stop it
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            process.wait(10)
            errors.seek(0)
            raise SystemExit(f"error: {arguments[1]} did not start\n{errors.read()}")
        yield line
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        errors.close()


def configuration(policy: str, ports: list[int], seed: int) -> str:
    """Return what `equipoise serve` is told."""
    spec = resolve(policy)
    lines = ['listen = "127.0.0.1:0"', f"seed = {seed}"]
    for i, (port, mean) in enumerate(zip(ports, MEANS, strict=True)):
        lines += ["[[servers]]", f'name = "{i}"', f'address = "127.0.0.1:{port}"']
        lines += [f"speed = {MEANS[0] / mean!r}"]
    lines += ["[[policies]]", f'name = "{spec.policy.name}"']
    lines += [f"{name} = {json.dumps(value)}" for name, value in spec.params.items()]
    return "\n".join(lines) + "\n"


def measure(policy: str, ports: list[int], duration: float, seed: int) -> Result:
    """Run one policy.

    Requests without work go through a second dispatcher at the same time and the same rate: through
    the same one they would use up coins, and at another time this machine might be busier.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "dispatch.toml").write_text(configuration(policy, ports, seed))
        arguments = ["-m", "equipoise", "serve", "dispatch.toml"]
        lines = [stack.enter_context(started(arguments, folder)) for _ in range(2)]
        found = [line.split()[2].rstrip(",").rpartition(":") for line in lines]
        loads = [
            Load(host, int(port), path)
            for (host, _, port), path in zip(found, ("/", "/empty"), strict=True)
        ]
        tasks, empty = asyncio.run(together(loads, duration, seed))
    if any(load.failed for load in loads) or {task.status for task in tasks + empty} != {200}:
        raise SystemExit(f"error: {policy}: not every request was answered with 200")
    stationary, spread = model(policy)
    return Result(
        policy,
        len(tasks),
        float(np.mean([task.took for task in tasks])),
        replay(policy, tasks, seed),
        float(np.mean([task.took - task.service for task in empty])),
        stationary,
        spread,
    )


async def together(loads: list[Load], duration: float, seed: int) -> list[list[Request]]:
    """Run loads at the same time."""
    times = [poisson(RATE, duration, seed + i) for i in range(len(loads))]
    return await asyncio.gather(*(load.run(at) for load, at in zip(loads, times, strict=True)))


def run(duration: float, seed: int, policies: tuple[str, ...] = POLICIES) -> Iterator[Result]:
    """Run the policies one after the other, each on servers of its own."""
    for policy in policies:
        with ExitStack() as stack:
            server = ["-m", "examples.live.server"]
            given = [["--mean", str(mean), "--seed", str(seed + i)] for i, mean in enumerate(MEANS)]
            lines = [stack.enter_context(started([*server, *one], ROOT)) for one in given]
            yield measure(policy, [int(line) for line in lines], duration, seed)


COLUMNS = f"{'predicted':>10}{'measured':>10}{'error':>9}{'model':>16}{'tasks':>8}"
HEAD = f"{'mean response, ms':20}{COLUMNS}"


def row(result: Result) -> str:
    """Return a row of the table."""
    model = f"{result.model * 1e3:.2f}"
    model += f" +- {result.model_error * 1e3:.2f}" if result.model_error else " (exact)"
    return (
        f"{result.policy:20}{result.predicted * 1e3:>10.2f}{result.measured * 1e3:>10.2f}"
        f"{result.error:>+9.1%}{model:>16}{result.tasks:>8}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Policies side by side in front of real servers.")
    parser.add_argument("--duration", type=float, default=10.0, help="of each policy, s")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    means = ", ".join(f"{mean * 1e3:g}" for mean in MEANS)
    print(
        f"Four servers on 127.0.0.1, {means} ms a task, one at a time; {RATE:g} requests/s for "
        f"{given.duration:g} s a policy.\n\n{HEAD}",
        flush=True,
    )
    results = []
    for result in run(given.duration, given.seed):
        results.append(result)
        print(row(result), flush=True)
    own = np.mean([result.own for result in results])
    print(
        "\npredicted  the same tasks in the simulator, under the same policy with the same coins,"
        f"\n           and {own * 1e3:.2f} ms that a request takes which needs no work"
        "\nmodel      what a run without end would give; a short one is some way off"
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
