"""How long messages take, since real ones do.

Everything that servers tell the dispatcher (tokens, idleness reports, updates, answers) arrives
after a delay, and so do the announcements of the dispatcher. Tasks themselves travel at once.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from equipoise.scenario.base import Number, Part
from equipoise.scenario.service import Deterministic, Law


class Messages(Part):
    """The [messages] table: `delay` in seconds, a number or a law like those of `service`."""

    delay: Annotated[Number, Field(ge=0)] | Annotated[Law, Field(discriminator="law")] = 0.0

    @property
    def law(self) -> Law | None:
        """The law of the delay; None where messages take no time."""
        if isinstance(self.delay, int | float):
            return Deterministic(value=float(self.delay)) if self.delay > 0 else None
        return self.delay
