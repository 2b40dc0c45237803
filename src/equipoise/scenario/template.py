"""A commented scenario to start from, as `equipoise new` writes it."""

from __future__ import annotations

from equipoise.errors import ScenarioError
from equipoise.scenario.mistakes import did_you_mean, one_of

_SERVERS = {
    "pool": """\
[servers]
count = 20
discipline = "pool"      # a server works on all its tasks at once; "fcfs": first come, first served
# limit = 40             # most tasks at a server; what is sent to a full one is lost
""",
    "fcfs": """\
[servers]
count = 20
discipline = "fcfs"      # first come, first served; "pool": all tasks at once; "ps": shared
workers = 1              # tasks in service at once, at each server
# limit = 100            # most tasks at a server; what is sent to a full one is lost
""",
    "ps": """\
[servers]
count = 20
discipline = "ps"        # the tasks of a server share its speed
# workers = 16           # at most so many share, the others wait
# curve = [1.0, 1.7, 2.2, 2.5]  # its speed with 1, 2, 3, 4 and more tasks; 1 without a curve
# limit = 100            # most tasks at a server; what is sent to a full one is lost
""",
}

_LOAD = {
    "pool": "load = 8.5               # tasks offered per server",
    "fcfs": "load = 0.9               # fraction of what the servers can do; below 1",
    "ps": "load = 0.9               # fraction of what the servers can do; below 1",
}

_THRESHOLD = {"pool": 9, "fcfs": 1, "ps": 2}

_TEMPLATE = """\
# A scenario for Equipoise. All times are in seconds.
#     equipoise compare {file}
#     equipoise compare {file} --report {page}

name = "{name}"

{servers}
[arrivals]
law = "poisson"
{load}
# rate = 170.0           # instead of load: tasks per second, all servers together
# batch = 3              # so many tasks come at once; or {{law = "geometric", mean = 2.5}}

# Traffic that rises and falls: load (or rate) + amplitude sin(2 pi t / period).
# [arrivals]
# law = "sinusoid"
# load = 0.6
# amplitude = 0.3
# period = 86400.0

# Traffic as it was seen: tasks per interval of `bin` seconds, or a CSV with a column `count`.
# [arrivals]
# law = "rates"
# bin = 60.0
# counts = [9000, 12000, 15000, 11000]
# scale = 1.0            # times as much traffic

[service]
law = "exponential"      # deterministic, erlang (shape), hyperexponential (scv), lognormal (scv),
mean = 1.0               # bounded-pareto (index, ratio), coxian, phase-type, empirical (values ..)

# Several dispatchers, each with a memory of its own, between which the tasks are split.
# [dispatchers]
# count = 4
# hear = "all"           # what every server tells; or "own": each counts its own tasks only

# What the columns of your own trace mean (CSV or JSONL): equipoise compare {file} --trace FILE
# [trace]
# time = "TIMESTAMP"     # seconds or ISO 8601; or, if only ends are recorded: end = "END"
# service = "duration"   # seconds; or seconds per unit: {{constant = 0.05, GeneratedTokens = 0.02}}

# The policies to compare; `equipoise policies` lists all of them.
[[policies]]
name = "random"

[[policies]]
name = "round-robin"

[[policies]]
name = "jsq-d"
d = 2

[[policies]]
name = "threshold"
level = {level}

[[policies]]
name = "learning-threshold"

[[policies]]
name = "jsq"

[run]
{length}
start = "empty"          # or "balanced", or a list of lengths
warm_up = "auto"         # found by a rule; or so many seconds
replications = 8
seed = 1
"""

_LENGTH = {
    "pool": "duration = 200.0         # s; or tasks = 1_000_000",
    "fcfs": "tasks = 200_000          # or duration = 1000.0 (s)",
    "ps": "tasks = 200_000          # or duration = 1000.0 (s)",
}

KINDS = tuple(_SERVERS)


def template(kind: str = "pool", file: str = "scenario.toml") -> str:
    """Return the text of a scenario that runs as it is, of a kind: "pool", "fcfs" or "ps".

    `file` is the name it will have, for the commands in its comments. Raises `ScenarioError`.
    """
    if kind not in KINDS:
        raise ScenarioError(
            f"no template is called '{kind}'; it must be {one_of(KINDS)}{did_you_mean(kind, KINDS)}"
        )
    stem = file.removesuffix(".toml")
    return _TEMPLATE.format(
        file=file, page=f"{stem}.html", name=stem, servers=_SERVERS[kind], load=_LOAD[kind],
        level=_THRESHOLD[kind], length=_LENGTH[kind],
    )  # fmt: skip
