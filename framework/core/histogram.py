"""Histogram: how long something took, counted by classes, with an example for each class.

Fed once a span of messages, never once a message, and bounded. It knows no clock: times are arguments.
"""

from __future__ import annotations

from bisect import bisect_left

from framework.model.snapshot import ExampleSnapshot, HistogramSnapshot

# OpenTelemetry's for messaging, and longer ones: the limit of a handler is 15 minutes by default.
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0, 900.0)
EXAMPLE_SECONDS = 15.0
"""How long an example is kept at least: as long as most scrapers wait."""


class Histogram:
    """Durations in seconds. `examples` says whether the caller should name one: (bucket, since)."""

    __slots__ = ("_counts", "_examples", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._examples: list[ExampleSnapshot | None] = [None] * (len(BOUNDS_S) + 1)
        self._sum = 0.0

    def add(self, seconds: float, count: int = 1) -> int:
        """Count `count` times of so long each; answers their class."""
        place = bisect_left(BOUNDS_S, seconds)
        self._counts[place] += count
        self._sum += seconds * count
        return place

    def wants_example(self, place: int, now_ms: int) -> bool:
        kept = self._examples[place]
        return kept is None or now_ms - kept.at_ms >= EXAMPLE_SECONDS * 1000

    def show(self, place: int, example: ExampleSnapshot) -> None:
        self._examples[place] = example

    def picture(self) -> HistogramSnapshot:
        return HistogramSnapshot(BOUNDS_S, tuple(self._counts), self._sum, tuple(self._examples))
