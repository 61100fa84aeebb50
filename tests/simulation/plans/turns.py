"""Turns: which ways and faults a seed is to bring together, so that seeds in a row meet all pairs evenly.

Laws: a seed alone tells its turn. Seeds of one shape take turns among themselves: in each cycle of them (as many as
there are ways times blocks of faults) each way stands first in a turn once with each fault. Only what stands first is
sure to be gone, because ways undo each other; those that most runs go anyway need no such turn. Which faults stand
together is drawn anew for each cycle, and the other ways of a turn for each seed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from framework.testing.sim.streams import Stream

WAYS_EACH = 9
"""More than are used: some undo each other."""
FAULTS_EACH = 5
Shape = Literal["calm", "wide", "narrow"]
"""A calm run has no faults but members that leave and come back cleanly; a narrow one is a long look at one pair."""
SHAPES: tuple[Shape, ...] = (
    "wide", "wide", "narrow", "wide", "calm",
    "wide", "wide", "narrow", "wide", "calm",
    "wide", "wide", "narrow", "wide", "calm",
    "wide", "wide", "wide", "wide", "calm",
)  # fmt: skip
"""Of seeds in a row, from each twentieth on."""


class Turn(NamedTuple):
    """Names, the most important ones first."""

    ways: list[str]
    faults: list[str]


def shape_of(seed: int) -> Shape:
    return SHAPES[seed % len(SHAPES)]


def turn_of(seed: int, ways: Sequence[str], faults: Sequence[str], usual: Collection[str] = ()) -> Turn:
    """The seed's ways and faults; none of the `usual` ways comes first."""
    round_, at = divmod(seed, len(SHAPES))
    number = round_ * SHAPES.count(SHAPES[at]) + SHAPES[:at].count(SHAPES[at])
    firsts = [way for way in ways if way not in usual]
    blocks = -(-len(faults) // FAULTS_EACH)
    cycle, place = divmod(number, len(firsts) * blocks)
    row, column = divmod(place, len(firsts))
    chance = Stream(f"{SHAPES[at]} cycle/{cycle}")
    mixed_firsts, mixed_faults = chance.sample(firsts, len(firsts)), chance.sample(faults, len(faults))
    begin = (row + column) % blocks * FAULTS_EACH
    chosen = [mixed_faults[(begin + each) % len(faults)] for each in range(FAULTS_EACH)]
    own, first = Stream(f"{seed}/turn"), mixed_firsts[column]
    own.shuffle(chosen)
    others = own.sample([way for way in ways if way != first], WAYS_EACH - 1)
    return Turn([first, *others], chosen)
