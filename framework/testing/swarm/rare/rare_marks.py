"""Rare marks: what each `marks.rarely` and `marks.stretched` of the code does, and which of them a run makes common.

Most are asleep in a run, so that rare things come up by themselves and not only all together: FoundationDB's BUGGIFY.
Each draws from a stream of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framework.testing.sim.streams import Stream

RUNS = 0.6
SHARE = 0.2
CHANCES = (0.05, 0.3, 1.0)
SECONDS = (0.01, 0.1, 1.0, 4.0)
CALM_SECONDS = 0.05
"""A calm run keeps promises of seconds."""

STRETCHED: dict[str, str] = {}
"""Moments that last -> what meets there."""
RARELY: dict[str, str] = {}
"""Rare ways -> what is done there."""


@dataclass(frozen=True, slots=True)
class Active:
    """A mark that is awake in a run."""

    name: str
    chance: float
    seconds: float
    """How long a moment lasts at most; of no meaning where there is none."""


@dataclass(frozen=True, slots=True)
class RareMarks:
    """A run's."""

    active: tuple[Active, ...] = ()

    def without(self, name: str) -> RareMarks:
        return RareMarks(tuple(each for each in self.active if each.name != name))

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.active]

    def __str__(self) -> str:
        return ",".join(f"{each.name.replace(' ', '-')}@{each.chance:g}x{each.seconds:g}s" for each in self.active) or (
            "none"
        )


def draw_marks(chance: Callable[[str], Stream], *, is_calm: bool) -> RareMarks:
    """`chance` answers each mark's own stream, by its name."""
    if not chance("marks").happens(RUNS):
        return RareMarks()
    active = []
    for name in (*STRETCHED, *RARELY):
        own = chance(f"mark/{name}")
        is_awake, often, seconds = own.happens(SHARE), own.pick(CHANCES), own.pick(SECONDS)
        if is_awake and not (is_calm and name in RARELY):
            active.append(Active(name, often, CALM_SECONDS if is_calm else seconds))
    return RareMarks(tuple(active))
