"""What became of the mutants, in lines and in the two figures that the project is held to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.mutation.drawing import AT_HEART, NAMES
from tests.mutation.operators import Mutant
from tests.mutation.trials import Finding

FOUND_BAR, SEEDS_BAR = 95, 60
"""Percent: found by seeds and tests together; and at the heart by seeds alone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mutant and what found it. One that is known to be no mistake was not tried and says why."""

    mutant: Mutant
    room: str
    finding: Finding | None = None
    why: str = ""

    def line(self) -> str:
        if self.finding is None:
            return f"equivalent {self.mutant.file}:{self.mutant.line}"
        return f"{self.finding.by or 'SURVIVED'} {self.mutant.file}:{self.mutant.line} {self.finding.detail}".strip()


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of mutants that are mistakes."""

    mistakes: int
    found: int
    at_heart: int
    by_seeds: int
    """Of those at the heart."""

    @property
    def holds(self) -> bool:
        return self.found * 100 >= FOUND_BAR * self.mistakes and self.by_seeds * 100 >= SEEDS_BAR * self.at_heart

    def lines(self) -> Iterator[str]:
        yield f"mutate: found by seeds and tests: {_share(self.found, self.mistakes)} (at least {FOUND_BAR} %)"
        yield (
            f"mutate: {', '.join(sorted(AT_HEART))}: found by seeds alone: {_share(self.by_seeds, self.at_heart)} "
            f"(at least {SEEDS_BAR} %)"
        )


def figures(outcomes: Iterable[Outcome]) -> Figures:
    tried = [(each.room, each.finding) for each in outcomes if each.finding is not None]
    at_heart = [finding for room, finding in tried if room in AT_HEART]
    return Figures(
        len(tried),
        sum(bool(finding.by) for _, finding in tried),
        len(at_heart),
        sum(finding.by == "seeds" for finding in at_heart),
    )


def lines_of(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The survivors, what seeds alone do not see, a table by room, and the figures."""
    for title, by in (("survived", ""), ("found by tests and by no seed", "tests")):
        chosen = [
            (each.mutant, each.finding) for each in outcomes if each.finding is not None and each.finding.by == by
        ]
        if chosen:
            yield f"{title}:"
        for mutant, finding in chosen:
            where = f"{mutant.file}:{mutant.line} {mutant.function or 'the module'}"
            yield f"  {where}: {mutant.operator} ({_ran(finding)})"
            yield f"    - {mutant.before}"
            yield f"    + {mutant.after}"
    yield f"{'room':16} {'mutants':>8} {'equivalent':>11} {'seeds':>6} {'tests':>6} {'survived':>9}"
    for room in NAMES:
        of_room = [each for each in outcomes if each.room == room]
        if of_room:
            ways = [None if each.finding is None else each.finding.by for each in of_room]
            yield (
                f"{room:16} {len(ways):8} {ways.count(None):11} {ways.count('seeds'):6} {ways.count('tests'):6} "
                f"{ways.count(''):9}"
            )
    yield from figures(outcomes).lines()


def _ran(finding: Finding) -> str:
    return f"{finding.seeds_ran} seeds run it" if finding.seeds_ran else "no seed runs it"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}, {100 * part / whole if whole else 100:.0f} %"
