"""Access logs and traces: one call reads them all into a table of tasks.

>>> log = read_log("access.log.gz")
>>> log.format.name, log.account.used, len(log.tasks)
"""

from __future__ import annotations

from .base import Field, Format
from .read import FORMATS, Log, read_log
from .tables import Counts, Mapping
from .tasks import Account, Skipped, Tasks

__all__ = [
    "FORMATS",
    "Account",
    "Counts",
    "Field",
    "Format",
    "Log",
    "Mapping",
    "Skipped",
    "Tasks",
    "read_log",
]
