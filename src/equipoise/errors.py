"""What can go wrong, in words a user can act on.

`str(error)` is what a command prints: one line for each mistake, saying what was
wrong, where, and what would be right. Anything that is not an `EquipoiseError` is
our own bug and keeps its traceback.
"""


class EquipoiseError(Exception):
    """Something the user can mend; the text says how."""


class ScenarioError(EquipoiseError):
    """A scenario that cannot be studied: a wrong key, value or combination."""


class ConfigError(EquipoiseError):
    """A configuration of the live dispatcher that is wrong."""


class TraceError(EquipoiseError):
    """A file of recorded tasks that cannot be read or makes no sense."""


class PolicyError(EquipoiseError):
    """An unknown policy, a wrong parameter, or a policy that breaks its promises."""


class PolicyMismatch(PolicyError):
    """A policy needs what this driver cannot supply."""


class UnstableError(EquipoiseError):
    """Work arrives faster than it can be done, so no steady state exists."""
