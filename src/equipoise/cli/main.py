"""The command `equipoise`: finds a subcommand, and turns what happens into an exit status.

    0    the answer is on stdout
    1    we refuse: one line on stderr for each mistake in what was asked
    2    the command line itself is wrong
    130  Ctrl-C;  141  whoever read our output has gone, as `| head` does

A subcommand's module is imported when it is called, so that `equipoise --help` needs
neither numpy nor numba and takes a tenth of a second.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from ..errors import EquipoiseError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# A command's name and its line in `equipoise --help`. Its module, `cli/NAME.py`, holds it as
# `command`, and a test sees to it that the two say the same.
COMMANDS = {
    "compare": "Compare policies in front of the same traffic.",
    "advise": "Advise which policy to use in front of this traffic.",
    "simulate": "Simulate one policy.",
    "fit": "Tell what a log says, and make a scenario of it.",
    "reproduce": "Make the papers' figures again.",
    "limit": "Tell what theory says as the number of servers grows.",
    "stability": "Tell which load a policy can carry on unequal servers.",
    "serve": "Dispatch HTTP requests to servers.",
    "agent": "Stand in front of a server and tell dispatchers how it is.",
    "control": "Change servers of a dispatcher that runs.",
    "policies": "List the policies: what each does, needs and costs.",
    "new": "Write a commented scenario to start from.",
    "completion": "Print the completion script for a shell.",
}


class ReaderGone(Exception):
    """Nobody reads our output any more."""


class Commands(click.Group):
    """The subcommands, each loaded when it is asked for."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would exit with status 1, which says that we refuse.
            raise ReaderGone from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__package__}.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=line)
            for name, line in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"equipoise {version('equipoise')}")
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Load-balancing policies: what would they have done with your traffic?

    \b
    Examples:
        equipoise policies
        equipoise new mine.toml
        equipoise compare mine.toml --report mine.html
        equipoise fit access.log -o mine.toml --page fit.html
        equipoise advise mine.toml --messages-per-task 0.4
        equipoise simulate --servers 100 --discipline fcfs --load 0.9 --policy jsq-d
        equipoise limit --servers 500 --discipline pool --load 7.3
        equipoise stability --speeds 90x1,10x0.2 --d 2
        equipoise serve dispatch.toml --check
        equipoise agent --listen 0.0.0.0:8000 --server 127.0.0.1:9000 --status 0.0.0.0:8001
        equipoise control equipoise.sock servers
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command `equipoise` and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, not a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)

    try:
        status = cli.main(
            None if args is None else list(args), prog_name="equipoise", standalone_mode=False
        )
        if status == 130:  # an answer from what was finished when Ctrl-C came
            _leave(130)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:  # usage, exit status 2
        error.show()
        sys.exit(error.exit_code)
    except EquipoiseError as error:
        for line in str(error).splitlines():
            click.echo(f"error: {line}", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        _leave(130)
    except (ReaderGone, BrokenPipeError):
        # Python flushes stdout once more when it exits; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop tidily at the first Ctrl-C; a second one ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


def _leave(status: int) -> NoReturn:
    """Exit without waiting for replications that other threads are still in the middle of."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)
