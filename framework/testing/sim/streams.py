"""Chance from one seed, in streams that do not disturb each other.

One more draw in the network must not reshuffle the schedule, or no failing seed would survive a change of code. Only
`random()` and `getrandbits()` of the standard generator are used: they are the same on every Python, which `choice`,
`sample` and `shuffle` need not be.
"""

from __future__ import annotations

import random
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")


class Stream:
    """One stream of chance; also fits `ports.Chance`."""

    __slots__ = ("_generator", "name", "random")

    def __init__(self, name: str) -> None:
        self.name = name
        # Seeding with text goes through SHA-512, not through hash(), so PYTHONHASHSEED has no say.
        self._generator = random.Random(name)
        self.random = self._generator.random
        """0.0 <= x < 1.0; bound once, since the loop draws at each step."""

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"

    def below(self, limit: int) -> int:
        """0 <= n < limit."""
        assert limit > 0, f"nothing is below {limit}"
        return int(self.random() * limit)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def happens(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, things: Sequence[T]) -> T:
        return things[self.below(len(things))]

    def shuffle(self, things: MutableSequence[T]) -> None:
        """Fisher and Yates, in place."""
        for last in range(len(things) - 1, 0, -1):
            other = self.below(last + 1)
            things[last], things[other] = things[other], things[last]

    def sample(self, things: Sequence[T], count: int) -> list[T]:
        """`count` different ones, in drawn order."""
        rest = list(things)
        self.shuffle(rest)
        return rest[:count]

    def token(self, count: int) -> bytes:
        return self._generator.getrandbits(8 * count).to_bytes(count, "big") if count else b""


class Streams:
    """The streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.schedule = Stream(f"{seed}/schedule")
        self.network = Stream(f"{seed}/network")
        self.faults = Stream(f"{seed}/faults")
        self.application = Stream(f"{seed}/application")

    def named(self, name: str) -> Stream:
        """A further stream, for instance one for each simulated process."""
        return Stream(f"{self.seed}/{name}")
