"""Turns: which ways and faults a seed is to bring together, so that seeds in a row meet all pairs evenly.

Laws: a seed alone tells its turn. Seeds of one shape take turns among themselves: in each cycle of them (as many as
there are ways times blocks of faults) each way stands in each place of a turn once with each fault. Who stands with
whom is drawn anew for each cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from framework.testing.sim.streams import Stream

WAYS_EACH = 7
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


def turn_of(seed: int, ways: Sequence[str], faults: Sequence[str]) -> Turn:
    """The seed's ways and faults."""
    round_, at = divmod(seed, len(SHAPES))
    number = round_ * SHAPES.count(SHAPES[at]) + SHAPES[:at].count(SHAPES[at])
    blocks = -(-len(faults) // FAULTS_EACH)
    cycle, place = divmod(number, len(ways) * blocks)
    row, column = divmod(place, len(ways))
    chance = Stream(f"{SHAPES[at]} cycle/{cycle}")
    mixed_ways, mixed_faults = chance.sample(ways, len(ways)), chance.sample(faults, len(faults))
    steps = chance.sample(range(1, len(ways)), WAYS_EACH - 1)
    begin = (row + column) % blocks * FAULTS_EACH
    chosen = [mixed_faults[(begin + each) % len(faults)] for each in range(FAULTS_EACH)]
    Stream(f"{seed}/turn").shuffle(chosen)
    return Turn([mixed_ways[(column + step) % len(ways)] for step in (0, *steps)], chosen)
