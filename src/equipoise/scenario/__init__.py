"""What is studied: the servers, the traffic, the service times and how long to look.

A `Scenario` is read from a TOML file, from a dict, or from the few numbers of a command
line, and is checked as a whole: it either makes sense or says every mistake at once.

    model.py      Scenario: the parts together, and what follows from them
    servers.py    how many, and how they work
    arrivals.py   Poisson of constant or changing rate, a trace
    flow.py       the rate of a Poisson stream at every moment
    batch.py      how many tasks come at once
    service.py    the laws of service time
    phases.py     those made of exponential phases
    slots.py      slotted time: tasks and services per slot
    dispatchers.py  how many dispatchers, and what each knows of the others' tasks
    run.py        how long, from which state, how often
    trace.py      reading recorded tasks from CSV or JSONL
    stream.py     the tasks themselves, block by block
    flags.py      service laws written like a call, "lognormal(mean=1, scv=4)", and curves
    files.py      reading TOML and small tables
    mistakes.py   every mistake as one plain line
    template.py   a commented scenario to start from
"""

from equipoise.scenario.arrivals import Poisson, Rates, Sinusoid, TraceArrivals
from equipoise.scenario.batch import Batch
from equipoise.scenario.dispatchers import Dispatchers
from equipoise.scenario.flow import Flow
from equipoise.scenario.model import Scenario
from equipoise.scenario.phases import Coxian, PhaseType
from equipoise.scenario.run import Run
from equipoise.scenario.servers import Group, Servers
from equipoise.scenario.service import (
    BoundedPareto,
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
    "Batch",
    "BoundedPareto",
    "Coxian",
    "Deterministic",
    "Dispatchers",
    "Empirical",
    "Erlang",
    "Exponential",
    "Flow",
    "Group",
    "Hyperexponential",
    "Lognormal",
    "PhaseType",
    "Poisson",
    "Rates",
    "Recording",
    "Run",
    "Scenario",
    "Servers",
    "Sinusoid",
    "SlotArrivals",
    "SlotService",
    "TaskStream",
    "TraceArrivals",
    "TraceColumns",
    "TraceService",
    "read_trace",
    "template",
]
