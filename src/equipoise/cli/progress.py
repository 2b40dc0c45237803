"""A bar on stderr while a simulation runs, where somebody is looking."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[float, str], None]


@contextmanager
def progress() -> Iterator[Report | None]:
    """Yield what to call with the part done, 0 to 1, and what is being done.

    Yields None if stderr is not a terminal: logs and pipes get no bar. The bar is gone
    when the context is left, also by Ctrl-C.
    """
    if not sys.stderr.isatty():
        yield None
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done, text: bar.update(task, completed=done, description=text)
