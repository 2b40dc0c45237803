"""Several dispatchers before the same servers: what tokens are worth, measured beside predicted.

    python -m examples.live.many --dispatchers 1 2 4 --duration 60

which is `make demo-many`. Eight servers on 127.0.0.1 do one task at a time, exponential of mean
40 ms; requests come in one Poisson stream at load 0.7, and each goes to a random one of M
dispatchers, M processes of `equipoise serve`. What these know of each other's tasks is one of

    agents   the servers tell every dispatcher, over its own streams, of all their tasks
    local    nothing: every dispatcher counts the tasks that it has sent itself

The same tasks come in every run: their times, their dispatchers and how long they ask a server to
work. The two runs of one M take turns of ten seconds, each with servers and dispatchers of its
own, so that whatever else this machine does befalls both. When tasks really came and how long the
servers really took is recorded, and the simulator replays that record behind M dispatchers that
hear "all", messages taking as long as they did, or "own". So it predicts how long tasks wait at the
servers. What a request takes besides, on its way and in the dispatcher, is measured and added to
the prediction of its mean response: servers say how long each task waited and how long they worked.

How long messages took is measured from the event at the server (a task has left, a clock has
turned) to the policy that has heard of it, by the clock of the machine (`noted.py`); the simulator
is given the mean.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from itertools import product
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np

from equipoise.policies import resolve
from equipoise.policies.steps import MESSAGES
from equipoise.scenario import Scenario
from equipoise.sim.run import RESPONDED, RESPONSES, Record, replicate

from .demo import ROOT, started
from .load import Load

SERVERS = 8
MEAN = 0.040  # s; messages take a hundredth of it on a machine that is not busy
LOAD = 0.7
RATE = SERVERS * LOAD / MEAN  # tasks a second
DISPATCHERS = (1, 2, 4)
INFORMATION = ("agents", "local")
POLICIES = ("threshold(level=1)",)
REPLICATIONS = 8  # of replays whose coins cannot be those of the run, and of the model
AHEAD = 1.0  # s for connections to be made, before the first task
TURN = 10.0  # s


class Run(NamedTuple):
    """What is run."""

    dispatchers: int
    information: str  # agents or local
    policy: str
    duration: float  # s
    seed: int

    @property
    def agents(self) -> bool:
        """Whether servers tell."""
        return self.information == "agents"


class Site(NamedTuple):
    """Servers and dispatchers that are there for a run, by their addresses."""

    run: Run
    dispatchers: list[str]
    status: list[str]  # of the dispatchers
    agents: list[str]  # of the servers; [] if they do not tell


class Task(NamedTuple):
    """One task that was served. Times in seconds."""

    sent: float  # since the load began
    dispatcher: int
    server: str
    service: float  # how long the server really took
    wait: float  # at the server, before it began
    took: float  # from being sent to the answer's last byte


class Seen(NamedTuple):
    """What was recorded."""

    tasks: list[Task]
    delays: np.ndarray  # float64[messages], s
    messages: int  # that the dispatchers counted, all together
    trouble: list[str]  # what was not as it must be when all had ended; should be empty


class Model(NamedTuple):
    """What a run without end would give where nothing but the servers takes time."""

    response: float  # s
    error: float  # its standard error, s
    messages: float  # per task

    @property
    def wait(self) -> float:
        """Mean time that tasks wait, in service times."""
        return self.response / MEAN - 1


class Result(NamedTuple):
    """What was seen of a run beside what was predicted. Times in seconds."""

    run: Run
    tasks: int
    measured: float  # mean time of a request
    waited: float  # mean time of a task at its server, before it began
    service: float  # mean time that the servers took
    replayed: float  # mean of the simulator for the same tasks
    delay: float  # mean of a message's delay, 0 where there were none
    messages: float  # per task, counted at the dispatchers
    messages_replayed: float  # per task, in the simulator
    model: Model

    @property
    def besides(self) -> float:
        """What a request takes that is neither waiting nor work at a server."""
        return self.measured - self.waited - self.service

    @property
    def predicted(self) -> float:
        """What the simulator says, and what a request takes besides."""
        return self.replayed + self.besides

    @property
    def error(self) -> float:
        """Of the prediction, as a fraction of what was measured."""
        return self.predicted / self.measured - 1

    @property
    def wait(self) -> float:
        """Mean time that tasks waited at servers, in service times."""
        return self.waited / self.service

    @property
    def wait_predicted(self) -> float:
        """The same of the replay."""
        return self.replayed / self.service - 1


# -- the run ------------------------------------------------------------------------------------


def configuration(run: Run, servers: Sequence[Sequence[int]], number: int) -> str:
    """Return what dispatcher `number` is told; of each server its port and its agent's, if any."""
    spec = resolve(run.policy)
    lines = ['listen = "127.0.0.1:0"', f"seed = {run.seed + number}"]
    if spec.policy.clock is not None:
        lines += [f"mean_service = {MEAN}"]
    lines += ["[admin]", 'listen = "127.0.0.1:0"']
    if len(servers[0]) > 1:
        lines += ["[agents]"]
    for i, (port, *agent) in enumerate(servers):
        lines += ["[[servers]]", f'name = "{i}"', f'address = "127.0.0.1:{port}"']
        lines += [f'agent = "127.0.0.1:{port}"' for port in agent]
    lines += ["[[policies]]", f'name = "{spec.policy.name}"']
    lines += [f"{name} = {json.dumps(value)}" for name, value in spec.params.items()]
    return "\n".join(lines) + "\n"


def all_started(stack: ExitStack, commands: Sequence[list[str]], folder: Path) -> list[str]:
    """Start processes together; return the first line of each."""
    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(lambda one: stack.enter_context(started(one, folder)), commands))


def asked(address: str, page: str) -> Any:
    """Return what a status address says."""
    with urllib.request.urlopen(f"http://{address}/{page}", timeout=30.0) as answer:
        return json.load(answer)


def given(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tasks: times and work, float64[k] s, and dispatchers, int64[k].

    Times and work are the same for all runs of one seed and duration.
    """
    streams = [np.random.default_rng([run.seed, i]) for i in range(3)]
    count = streams[0].poisson(RATE * run.duration)
    times = np.sort(streams[0].uniform(0.0, run.duration, count))
    work = streams[1].exponential(MEAN, count)
    return times, work, streams[2].integers(0, run.dispatchers, count)


def site(run: Run, stack: ExitStack, folder: Path) -> Site:
    """Start servers and dispatchers."""
    server = ["-m", "examples.live.server", "--mean", str(MEAN)]
    agent = ["--agent"] if run.agents else []
    lines = all_started(stack, [[*server, "--name", str(i), *agent] for i in range(SERVERS)], ROOT)
    servers = [[int(port) for port in line.split()] for line in lines]
    files = [folder / f"{run.information}-{k}.toml" for k in range(run.dispatchers)]
    for k, file in enumerate(files):
        file.write_text(configuration(run, servers, k))
    serve = ["-m", "examples.live.noted"] if run.agents else ["-m", "equipoise", "serve"]
    lines = all_started(stack, [[*serve, file.name] for file in files], folder)
    return Site(
        run,
        [line.split()[2].rstrip(",") for line in lines],
        [line.rpartition("http://")[2].partition("/")[0] for line in lines],
        [f"127.0.0.1:{ports[1]}" for ports in servers] if run.agents else [],
    )


async def loaded(sites: Sequence[Site]) -> list[list[Task]]:
    """Send each site its tasks; return them as they were answered, all with 200."""
    began = perf_counter() + AHEAD
    return await asyncio.gather(
        *(_loaded(site, i, len(sites), began) for i, site in enumerate(sites))
    )


async def _loaded(site: Site, turn: int, turns: int, began: float) -> list[Task]:
    times, work, whose = given(site.run)
    if turns > 1:
        times = (times // TURN * turns + turn) * TURN + times % TURN
    addresses = [address.rpartition(":") for address in site.dispatchers]
    loads = [Load(host, int(port), "/") for host, _, port in addresses]
    found = await asyncio.gather(
        *(
            load.run(times[whose == k].tolist(), work[whose == k].tolist(), began=began)
            for k, load in enumerate(loads)
        )
    )
    statuses = [task.status for some in found for task in some]
    if any(load.failed for load in loads) or set(statuses) != {200}:
        raise SystemExit("error: not every request was answered with 200")
    return sorted(
        Task(one.sent, k, one.server, one.service, one.wait, one.took)
        for k, some in enumerate(found)
        for one in some
    )


def record(runs: Sequence[Run]) -> list[Seen]:
    """Run servers, dispatchers and load, several runs in turns; return what was seen of each."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        sites = [site(run, stack, Path(name)) for run in runs]
        before = [_messages(site) for site in sites]
        tasks = asyncio.run(loaded(sites))
        sleep(0.3)  # the last messages are on their way
        return [seen(*one) for one in zip(sites, before, tasks, strict=True)]


def seen(site: Site, before: int, tasks: list[Task]) -> Seen:
    """Look at a site when its tasks have ended; `before`: its messages until they began."""
    heard = [asked(address, "heard") for address in site.status] if site.agents else []
    told = [asked(address, "told") for address in site.agents]
    trouble = [*wrong([asked(address, "status") for address in site.status], len(tasks))]
    trouble += wrong_agents([asked(address, "status") for address in site.agents], len(tasks))
    return Seen(tasks, delays(told, heard), _messages(site) - before, trouble)


def delays(told: list[Any], heard: list[Any]) -> np.ndarray:
    """Return how long each message took, s, of those that were both told and heard."""
    when = {(name, number): at for some in told for name, number, at in some}
    found = [
        at - when[name, number]
        for some in heard
        for name, number, at in some
        if (name, number) in when
    ]
    return np.array(found)


def _messages(site: Site) -> int:
    return sum(sum(asked(address, "status")["messages"].values()) for address in site.status)


def wrong(status: list[dict[str, Any]], tasks: int) -> Iterator[str]:
    """Say what is not as it must be at dispatchers at rest."""
    served = 0
    for k, one in enumerate(status):
        for server in one["servers"]:
            served += server["outcomes"]["ok"]
            if server["slots"] or server["length"]:
                yield f"dispatcher {k} still counts {server['slots']} at server {server['name']}"
            if server.get("agent", {"state": "open"})["state"] != "open":
                yield f"dispatcher {k} does not hear server {server['name']}"
        dropped = one.get("agents", {"dropped": {}})["dropped"]
        if one["spurious_releases"] or any(dropped.values()):
            yield f"dispatcher {k}: spurious {one['spurious_releases']}, dropped {dropped}"
    if served != tasks:
        yield f"{served} tasks counted as served, of {tasks}"


def wrong_agents(status: list[dict[str, Any]], tasks: int) -> Iterator[str]:
    """Say what is not as it must be at agents at rest."""
    for i, one in enumerate(status):
        if one["tasks"] or one["spurious_finishes"] or one["dropped"]:
            yield f"agent {i}: {one}"
    came = sum(one["started"] for one in status)
    received = sum(each["received"] for one in status for each in one["dispatchers"])
    if status and not came == received == tasks:
        yield f"{came} tasks at agents, {received} of them with numbers, of {tasks}"


# -- the prediction -----------------------------------------------------------------------------


def write(tasks: list[Task], file: Path) -> None:
    """Write the record."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["time", "dispatcher", "server", "service", "wait", "took"])
        rows.writerows(tasks)


def scenario(run: Run, arrivals: Any, service: Any, delay: float = 0.0, **more: Any) -> Scenario:
    """Return the servers and dispatchers with this traffic."""
    tables: dict[str, Any] = {
        "servers": {"count": SERVERS, "discipline": "fcfs"},
        "arrivals": arrivals,
        "service": service,
        "dispatchers": {"count": run.dispatchers, "hear": "all" if run.agents else "own"},
        "run": more,
    }
    if delay > 0:
        tables["messages"] = {"delay": delay}
    return Scenario.from_dict(tables)


def replay(run: Run, tasks: list[Task], delay: float) -> tuple[float, float]:
    """Return the mean time of these tasks in the simulator, s, and messages per task.

    The first replication has the coins of the first dispatcher. So it is the run of one that is
    alone and whose servers throw none; else it is the mean of several.
    """
    same_coins = run.dispatchers == 1 and resolve(run.policy).policy.clock is None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.csv"
        write(tasks, file)
        replayed = scenario(
            run,
            {"law": "trace", "file": str(file), "time": "time", "dispatcher": "dispatcher"},
            {"law": "trace", "column": "service"},
            delay,
            # all of them finish, and clocks turn about as long as in the run
            duration=max(task.sent + task.took for task in tasks) - tasks[0].sent + AHEAD,
            seed=run.seed,
        )
        found = [
            replicate(replayed, resolve(run.policy), i, kernel="events")
            for i in range(1 if same_coins else REPLICATIONS)
        ]
    assert {one.finished for one in found} == {len(tasks)}
    times = [_mean_response(one) for one in found]
    messages = float(np.mean([_messages_of(one) for one in found]))
    return float(np.mean(times)), messages / len(tasks)


@cache
def model(dispatchers: int, information: str, policy: str) -> Model:
    """Return what the model says."""
    if dispatchers == 1:
        information = "agents"  # it makes no difference
    run = Run(dispatchers, information, policy, 0.0, 0)
    traffic, service = {"law": "poisson", "rate": RATE}, {"law": "exponential", "mean": MEAN}
    endless = scenario(run, traffic, service, tasks=600_000)
    found = [replicate(endless, resolve(policy), i, kernel="events") for i in range(REPLICATIONS)]
    times = [_mean_response(one) for one in found]
    return Model(
        float(np.mean(times)),
        float(np.std(times, ddof=1) / len(times) ** 0.5),
        float(np.mean([_messages_of(one) / one.arrived for one in found])),
    )


def _mean_response(one: Record) -> float:
    return float(one.sums[:, RESPONSES].sum() / one.sums[:, RESPONDED].sum())


def _messages_of(one: Record) -> int:
    return int(one.messages[:, : len(MESSAGES)].sum())


# -- both ---------------------------------------------------------------------------------------


def in_turns(runs: Sequence[Run]) -> list[list[Run]]:
    """Return which runs to measure together; while it is another's turn a clock would go on."""
    if any(resolve(run.policy).policy.clock is not None for run in runs):
        return [[run] for run in runs]
    return [list(runs)]


def measure(runs: Sequence[Run], keep: Path | None = None) -> list[Result]:
    """Run, in turns, and predict what was run; write records into a folder, if one is given."""
    return [_result(run, one, keep) for run, one in zip(runs, record(runs), strict=True)]


def _result(run: Run, seen: Seen, keep: Path | None) -> Result:
    if seen.trouble:
        raise SystemExit("\n".join(f"error: {text}" for text in seen.trouble))
    if keep is not None:
        name = f"{run.dispatchers}-{run.information}-{resolve(run.policy).policy.name}.csv"
        write(seen.tasks, keep / name)
    delay = float(seen.delays.mean()) if seen.delays.size else 0.0
    replayed, messages = replay(run, seen.tasks, delay)
    return Result(
        run,
        len(seen.tasks),
        *(float(np.mean([task[i] for task in seen.tasks])) for i in (-1, -2, -3)),
        replayed,
        delay,
        seen.messages / len(seen.tasks) if run.agents else 0.0,
        messages if run.agents else 0.0,
        model(run.dispatchers, run.information, run.policy),
    )


HEAD = (
    f"{'':39}{'response, ms':>27}{'wait, service times':>29}{'messages/task':>16}{'delay':>8}\n"
    f"{'M':>2}  {'knows by':10}{'policy':25}"
    f"{'predicted':>10}{'measured':>9}{'error':>8}"
    f"{'predicted':>11}{'measured':>9}{'model':>9}"
    f"{'pred.':>9}{'meas.':>7}{'ms':>8}"
)


def row(result: Result) -> str:
    """Return a row of the table."""
    run = result.run
    told = f"{'-':>9}{'-':>7}{'-':>8}"
    if run.agents:
        counts = f"{result.messages_replayed:>9.2f}{result.messages:>7.2f}"
        told = f"{counts}{result.delay * 1e3:>8.2f}"
    return (
        f"{run.dispatchers:>2}  {run.information:10}{run.policy:25}"
        f"{result.predicted * 1e3:>10.2f}{result.measured * 1e3:>9.2f}{result.error:>+8.1%}"
        f"{result.wait_predicted:>11.3f}{result.wait:>9.3f}{result.model.wait:>9.3f}{told}"
    )


def show_model(policies: Sequence[str], dispatchers: Sequence[int]) -> None:
    """Print waits in the model, and messages per task of agents."""
    print(
        f"Mean wait in service times; {SERVERS} servers, load {LOAD:g}, exponential service, "
        f"messages that take no time.\n\n{'M':>2}  {'policy':22}{'local':>15}{'agents':>15}"
        f"{'messages/task':>15}"
    )
    for policy, count in product(policies, dispatchers):
        local, agents = model(count, "local", policy), model(count, "agents", policy)
        waits = [f"{one.wait:.3f} +- {one.error / MEAN:.3f}" for one in (local, agents)]
        print(f"{count:>2}  {policy:22}{waits[0]:>15}{waits[1]:>15}{agents.messages:>15.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Several dispatchers before the same servers.")
    parser.add_argument("--dispatchers", type=int, nargs="+", default=DISPATCHERS, metavar="M")
    parser.add_argument("--knows", nargs="+", default=INFORMATION, choices=INFORMATION)
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    parser.add_argument("--duration", type=float, default=20.0, help="of each run, s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the records, a CSV a run")
    parser.add_argument("--model", action="store_true", help="run nothing, print the model's waits")
    given = parser.parse_args()
    if given.model:
        show_model(given.policy, given.dispatchers)
        return
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    print(
        f"{SERVERS} servers on 127.0.0.1, {MEAN * 1e3:g} ms a task, one at a time; {RATE:g} "
        f"requests/s at M dispatchers for {given.duration:g} s a run.\n\n{HEAD}",
        flush=True,
    )
    besides = []
    for policy, dispatchers in product(given.policy, given.dispatchers):
        runs = [Run(dispatchers, one, policy, given.duration, given.seed) for one in given.knows]
        for some in in_turns(runs):
            for result in measure(some, given.keep):
                besides.append(result.besides)
                print(row(result), flush=True)
    print(
        "\npredicted  the same tasks in the simulator behind as many dispatchers, messages taking"
        f"\n           as long as they did, and the {np.mean(besides) * 1e3:.2f} ms that a request "
        "took besides"
        "\nmodel      what a run without end would give where nothing else takes time"
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
