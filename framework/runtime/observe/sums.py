"""Sums: what processes have counted, those that ended included, so that a sum over processes never falls.

A process that takes the place of another counts from 0, and one that is blocked says nothing. A sum without their
counts would fall, and a scraper takes each fall for a new beginning: it would count all other processes once more. What
a process counted between the last look and its end is lost. It knows no metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from framework.runtime.observe.openmetrics import SERIES_MAX, Labels, Sample, Times

C = TypeVar("C", Sample, Times)


@dataclass(slots=True)
class _Count(Generic[C]):
    """Of one process number, its processes one after the other."""

    present: C
    """As it was last said."""
    past: C | None = None
    """Of those that ended."""
    has_ended: bool = False

    def take(self, said: C) -> None:
        if self.has_ended or said.amount < self.present.amount:  # less: a group began anew in the same process
            self.past, self.has_ended = self.sum, False
        self.present = said

    @property
    def sum(self) -> C:
        return self.present if self.past is None else self.present.plus(self.past)


class Sums:
    """One a listener."""

    def __init__(self) -> None:
        self._sessions: dict[int, str] = {}
        self._known: dict[str, dict[tuple[int, Labels], _Count[Any]]] = {}

    def look(self, sessions: Mapping[int, str]) -> None:
        """Number of a process -> which run of it answers now; one that does not answer is left out."""
        ended = {number for number, session in sessions.items() if self._sessions.get(number, session) != session}
        for counts in self._known.values():
            for (number, _), count in counts.items():
                count.has_ended |= number in ended
        self._sessions |= sessions

    def keep(self, name: str, number: int, said: Sample | Times) -> bool:
        """Take in what a process says; False where there is too much of this metric to be kept."""
        counts = self._known.setdefault(name, {})
        count = counts.get((number, said.labels))
        if count is not None:
            count.take(said)
        elif len(counts) < SERIES_MAX:
            counts[number, said.labels] = _Count(said)
        return (number, said.labels) in counts

    def of(self, name: str) -> Iterator[tuple[int, Sample | Times]]:
        """Everything that is kept of this metric, with the number of its process."""
        for (number, _), count in self._known.get(name, {}).items():
            yield number, count.sum
