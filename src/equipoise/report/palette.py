"""How policies look, the same in every figure.

Eight hues after Okabe and Ito (2008), Color Universal Design, darkened on white so that
lines have a contrast of at least 3 : 1 and words 4.5 : 1, and lightened on black. Each
has its own dash and marker, so that colour never carries the meaning alone. Well-known
policies keep their hue from page to page; the others take what is left, in rank order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.report.results import PolicyResult


@dataclass(frozen=True)
class Look:
    """One way to look: lines on white, words on white, both on black, dashes, marker."""

    light: str
    words: str
    dark: str
    dash: str  # of an SVG stroke, "" is solid
    marker: str  # matplotlib's letter


LOOKS = (
    Look("#d55e00", "#ad4a00", "#ff8f45", "", "o"),
    Look("#0072b2", "#00619a", "#56b4e9", "9 3", "s"),
    Look("#009e73", "#00714f", "#2fc898", "3 3", "^"),
    Look("#c58200", "#8a5b00", "#f0b73f", "8 2.5 2 2.5", "D"),
    Look("#b8528e", "#9c3f77", "#e79fc9", "14 3 3 3", "v"),
    Look("#2b95d0", "#1d74a6", "#9bd6f7", "5 2", "P"),
    Look("#767676", "#5c5c5c", "#a9adb2", "2 2.5", "X"),
    Look("#2f2f2f", "#2f2f2f", "#ececec", "12 4", "*"),
)
# Levels of one quantity, few to many: cividis at .85, .74, ... .02, which looks alike with every
# kind of colour vision. Source: Nunez, Anderton and Renslow (2018), PLoS ONE 13(7).
LEVELS = ("#d6c35d", "#b9ab6d", "#999277", "#7d7c78", "#666970", "#4a536c", "#273e6e", "#002656")
USUAL = {
    "learning-threshold": 0,
    "jsq": 1,
    "jiq": 2,
    "threshold": 3,
    "jbt": 4,
    "jsq-d": 5,
    "round-robin": 6,
    "random": 7,
}


def level_colours(count: int) -> list[str]:
    """Return a colour for each of `count` levels, light to dark, evenly over LEVELS."""
    if count == 1:
        return [LEVELS[-1]]
    return [LEVELS[round(i * (len(LEVELS) - 1) / (count - 1))] for i in range(count)]


def looks(policies: Sequence[PolicyResult]) -> list[int]:
    """Return an index into LOOKS for each policy; all different up to eight policies."""
    taken: set[int] = set()
    out: list[int | None] = []
    for p in policies:
        slot = USUAL.get(p.name)
        out.append(None if slot in taken else slot)
        taken |= set() if slot is None else {slot}
    for i, slot in enumerate(out):
        if slot is None:
            free = [s for s in range(len(LOOKS)) if s not in taken]
            out[i] = free[0] if free else i % len(LOOKS)
            taken.add(out[i])  # type: ignore[arg-type]
    return [s for s in out if s is not None]
