"""What several commands share: the scenario, by file or by flags, and the run."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..scenario import Scenario

Function = TypeVar("Function", bound=Callable[..., Any])

# The flags that describe a simple scenario, in the order of `--help`.
SIMPLE = ("servers", "discipline", "load", "rate", "service", "workers", "curve", "limit")
RUN = (
    *("seed", "replications", "duration", "tasks"),
    *("precision", "precision_of", "budget"),
)


# The flags that say how the servers of a log work, since it does not.
OF_LOGS = ("servers", "discipline", "service", "workers", "curve", "limit")


class Count(click.ParamType):  # type: ignore[type-arg]  # not a generic before click 8.2
    """How many servers: a whole number, or several with commas between them, to be compared."""

    name = "count"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | tuple[int, ...]:
        try:
            counts = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"'{value}' is no whole number, nor several such as 12,16,20", param, ctx)
        return counts[0] if len(counts) == 1 else counts


class Kernel(click.Choice):  # type: ignore[type-arg]  # not a generic before click 8.2
    """The name of a kernel; that of `leap` may be followed by its step in brackets."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value).partition("(")[0]
        found = super().convert(name, param, ctx)
        return str(value) if found == "leap" else super().convert(value, param, ctx)


@dataclasses.dataclass(frozen=True)
class Asked:
    """The options of `scenario_arguments`, as they were given; None where they were not."""

    scenario: str | None
    trace: str | None
    simple: dict[str, Any]
    run: dict[str, Any]
    log_format: str | None = None
    sizes: tuple[int, ...] = ()  # fleets to be compared, where several were named
    notes: list[str] = dataclasses.field(default_factory=list)  # on the log that was read

    @classmethod
    def take(cls, options: dict[str, Any]) -> Asked:
        """Take them out of a command's keyword arguments."""
        simple = {name: options.pop(name) for name in SIMPLE}
        sizes = simple["servers"] if isinstance(simple["servers"], tuple) else ()
        simple["servers"] = None if sizes else simple["servers"]
        run = {name: options.pop(name) for name in RUN}
        return cls(
            scenario=options.pop("scenario"),
            trace=options.pop("trace"),
            simple={name: value for name, value in simple.items() if value is not None},
            run={name: value for name, value in run.items() if value is not None},
            log_format=options.pop("log_format"),
            sizes=sizes,
        )

    def refuse_beside_show(self) -> None:
        """Refuse to describe a run where a saved one is shown.

        Raises
        ------
        click.UsageError
            With what is too much.
        """
        given = [self.scenario] if self.scenario is not None else []
        given += [f"--{n}".replace("_", "-") for n in ("trace", *self.simple, *self.run)
                  if n != "trace" or self.trace is not None]  # fmt: skip
        if given:
            raise click.UsageError(
                f"--show takes a result that was saved; leave out {', '.join(given)}"
            )

    def read(self, sizes: bool = False) -> Scenario:
        """Return the scenario that was asked for; with `sizes` also of several sizes, the largest.

        Raises
        ------
        click.UsageError
            If there is neither a file nor flags, or both.
        ScenarioError, TraceError
            If what the file or the flags say is wrong.
        """
        if self.sizes and not sizes:
            raise click.UsageError("--servers names several sizes: `equipoise compare` takes them")
        if self.scenario is None and not self.simple:
            raise click.UsageError(
                "name a scenario file, or describe a scenario: "
                "--servers 100 --discipline fcfs --load 0.9"
            )
        if "duration" in self.run and "tasks" in self.run:
            raise click.UsageError("--duration and --tasks both say when to stop; give one")
        if self.scenario is not None and self.trace is None:
            from ..report.traffic import is_scenario

            if not is_scenario(self.scenario):
                return self._of_log(self.scenario)
        if self.log_format is not None:
            raise click.UsageError("--format is that of an access log, in place of a scenario file")
        if self.scenario is not None and self.simple:
            flags = ", ".join(f"--{name}" for name in self.simple)
            raise click.UsageError(
                f"{flags} would contradict {self.scenario}: give the file or the flags, "
                "or change the file"
            )
        if self.scenario is None and "servers" not in self.simple and not self.sizes:
            raise click.UsageError("--servers is missing: how many servers are there?")
        if self.scenario is None and self.trace is not None:
            raise click.UsageError(
                "--trace needs a scenario file whose [trace] table names its columns"
            )

        from ..scenario import Scenario

        if self.scenario is not None:
            scenario = Scenario.from_toml(self.scenario, trace=self.trace)
        else:
            if self.sizes and "load" in self.simple:
                raise click.UsageError(
                    "--load is that of one size; with several --servers give --rate, in tasks per s"
                )
            several: dict[str, Any] = {"servers": max(self.sizes)} if self.sizes else {}
            scenario = Scenario.simple(**self.simple, **several)
        return scenario.with_run(**self.run) if self.run else scenario

    def _of_log(self, path: str) -> Scenario:
        """Return the replay of a log."""
        wrong = [f"--{name}" for name in self.simple if name not in OF_LOGS]
        if wrong:
            raise click.UsageError(
                f"{', '.join(wrong)} would contradict {path}: the log says what comes"
            )
        from ..report.traffic import traffic_of

        several: dict[str, Any] = {"servers": max(self.sizes)} if self.sizes else {}
        traffic = traffic_of(path, format=self.log_format, **self.simple, **several, **self.run)
        self.notes.extend(traffic.notes)
        return traffic.scenario


def scenario_arguments(command: Function) -> Function:
    """Give a command SCENARIO, the flags that do without a file, and those of the run."""
    options = [
        click.argument("scenario", required=False, type=click.Path()),
        click.option("--servers", type=Count(), metavar="N", help="How many servers."),
        click.option(
            "--discipline",
            type=click.Choice(["pool", "fcfs", "ps"]),
            help="pool: a server works on all its tasks at once; fcfs: on one after the other; "
            "ps: on all, sharing its speed.",
        ),
        click.option(
            "--load",
            type=float,
            metavar="X",
            help="Offered tasks per server for pools; fraction of the capacity for others.",
        ),
        click.option("--rate", type=float, metavar="X", help="Or tasks per second, all servers."),
        click.option(
            "--service",
            metavar="LAW",
            help="Law of the service time in seconds, e.g. 'lognormal(mean=0.2, scv=4)'. "
            "[default: exponential(mean=1)]",
        ),
        click.option(
            "--workers",
            type=int,
            metavar="K",
            help="Workers of an fcfs server; most tasks that share one of ps.",
        ),
        click.option(
            "--curve",
            metavar="R1,R2,..",
            help="Speed of a ps server with 1, 2, .. tasks; the last one holds beyond.",
        ),
        click.option("--limit", type=int, metavar="K", help="Most tasks at a server."),
        click.option(
            "--trace",
            type=click.Path(),
            metavar="FILE",
            help="Recorded tasks to replay, read as the scenario's [trace] table says.",
        ),
        click.option(
            "--format",
            "log_format",
            metavar="NAME",
            help="Format of an access log named in place of a scenario, or a pattern such as "
            "'$time_iso8601 $request_time $upstream_addr'. [default: found from its lines]",
        ),
        click.option("--seed", type=int, metavar="N", help="Seed of everything random."),
        click.option("--replications", type=int, metavar="R", help="Independent runs."),
        click.option("--duration", type=float, metavar="S", help="Length of a run in seconds."),
        click.option("--tasks", type=int, metavar="N", help="Or in tasks."),
        click.option(
            "--precision",
            type=float,
            metavar="X",
            help="Run until the interval is at most this fraction of the value, e.g. 0.01.",
        ),
        click.option(
            "--precision-of",
            metavar="METRIC",
            help="The value that has to be so precise. [default: what ranks]",
        ),
        click.option(
            "--budget", type=int, metavar="N", help="Most tasks to spend on it, for each policy."
        ),
        click.option(
            "--jobs",
            type=int,
            metavar="N",
            help="Replications at once; the numbers are the same. [default: one for each core]",
        ),
        click.option(
            "--kernel",
            type=Kernel(["auto", "memoryless", "events", "occupancy", "leap", "slotted"]),
            default="auto",
            show_default=True,
            help="Which simulation kernel to run; leap may be given its step, leap(step=0.005).",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def again(seed: int) -> str:
    """Return what to type to get the answer of the current command again, seed included."""
    context = click.get_current_context()
    words = ["equipoise", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not given or name in ("report", "output", "save", "jobs", "as_json", "as_csv", "seed"):
            continue
        value = context.params[name]
        if name == "servers" and isinstance(value, tuple):
            value = ",".join(map(str, value))
        for one in value if isinstance(value, tuple) else (value,):
            option = [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]
            words += [*option, str(one)]
    return shlex.join([*words, "--seed", str(seed)])


def complete_policies(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the names of the policies, also after a comma."""
    from click.shell_completion import CompletionItem

    from ..policies import POLICIES

    start, comma, last = incomplete.rpartition(",")
    return [
        CompletionItem(start + comma + name, help=policy.about)
        for name, policy in POLICIES.items()
        if name.startswith(last)
    ]
