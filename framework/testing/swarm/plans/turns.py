"""Turns: which ways and faults a seed is to bring together, so that seeds in a row meet all pairs evenly.

Laws: a seed alone tells its turn. In each cycle (as many seeds as there are ways times blocks of faults) each way
stands in each place of a turn once with each fault. Who stands with whom is drawn anew for each cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from framework.testing.sim.streams import Stream

WAYS_EACH = 7
"""More than are used: some undo each other."""
FAULTS_EACH = 5
CALM_EACH = 5
T = TypeVar("T")


class Turn(NamedTuple):
    """Names, the most important ones first."""

    ways: list[str]
    faults: list[str]


def is_calm(seed: int) -> bool:
    """Every fifth seed has no faults but members that leave and come back cleanly."""
    return seed % CALM_EACH == CALM_EACH - 1


def turn_of(seed: int, ways: Sequence[str], faults: Sequence[str]) -> Turn:
    """The seed's ways and faults."""
    number = seed // CALM_EACH if is_calm(seed) else seed - seed // CALM_EACH
    blocks = -(-len(faults) // FAULTS_EACH)
    cycle, place = divmod(number, len(ways) * blocks)
    row, column = divmod(place, len(ways))
    chance = Stream(f"cycle/{cycle}")
    mixed_ways, mixed_faults = chance.sample(ways, len(ways)), chance.sample(faults, len(faults))
    steps = chance.sample(range(1, len(ways)), WAYS_EACH - 1)
    begin = (row + column) % blocks * FAULTS_EACH
    chosen = [mixed_faults[(begin + each) % len(faults)] for each in range(FAULTS_EACH)]
    Stream(f"{seed}/turn").shuffle(chosen)
    return Turn([mixed_ways[(column + step) % len(ways)] for step in (0, *steps)], chosen)
