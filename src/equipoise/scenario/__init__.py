"""What is studied: the servers, the traffic, the service times and how long to look.

A `Scenario` is read from a TOML file, from a dict, or from the few numbers of a command
line, and is checked as a whole: it either makes sense or says every mistake at once.

    model.py      Scenario: the parts together, and what follows from them
    servers.py    how many, and how they work
    arrivals.py   Poisson, piecewise-constant rates, a trace
    service.py    the laws of service time
    slots.py      slotted time: tasks and services per slot
    run.py        how long, from which state, how often
    trace.py      reading recorded tasks from CSV or JSONL
    stream.py     the tasks themselves, block by block
    flags.py      service laws written like a call, "lognormal(mean=1, scv=4)"
    files.py      reading TOML and small tables
    mistakes.py   every mistake as one plain line
    template.py   a commented scenario to start from
"""

from equipoise.scenario.arrivals import Poisson, Rates, TraceArrivals
from equipoise.scenario.model import Scenario
from equipoise.scenario.run import Run
from equipoise.scenario.servers import Group, Servers
from equipoise.scenario.service import (
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    TraceService,
)
from equipoise.scenario.slots import SlotArrivals, SlotService
from equipoise.scenario.stream import TaskStream
from equipoise.scenario.template import template
from equipoise.scenario.trace import Recording, TraceColumns, read_trace

__all__ = [
    "Deterministic",
    "Empirical",
    "Erlang",
    "Exponential",
    "Group",
    "Hyperexponential",
    "Lognormal",
    "Poisson",
    "Rates",
    "Recording",
    "Run",
    "Scenario",
    "Servers",
    "SlotArrivals",
    "SlotService",
    "TaskStream",
    "TraceArrivals",
    "TraceColumns",
    "TraceService",
    "read_trace",
    "template",
]
