"""Invariant: a process's commits of a queue never fall, unless it has acquired the queue again from further back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Acquired, Committed, Fact, Remade, Reset, Said
from tests.simulation.history import History

NAME = "offsets go forward"
LATE_S = 30.0
"""How long after a reset a commit from before it may still arrive: its process was stopped, or its line held up."""
HOLDS_UP = frozenset({"stall", "slow", "cut", "cut-one-way", "swizzle-clog"})
"""Faults by which what was sent first on one connection arrives behind what was sent next on another one."""
HELD_UP_S = 30.0
"""How long after such a fault: what waited in a clogged line is sent again as late as that."""
LATE_ON_A_LOST_LINE_S = 10.0
"""How long after a connection was lost what was sent on it may still arrive, behind what went by the next one."""
OVERTAKEN_S = 0.01
"""How much longer than the shortest way the longest one to a broker takes, in calm weather."""


def offsets_forward(history: History) -> Iterator[Violation]:
    """Commits go forward, as the brokers saw it, within one acquisition. Another owner's late commit may fall: repeats.

    An acquisition may begin further back than the one before it. It does so once: from there on its commits go up.

    Pulls and commits have a connection each, so that of two sent within the same few milliseconds the first may arrive
    last. No client of a stock broker can prevent that, and the next pull says the newer offset again.
    """
    offsets = _Offsets(history)
    for fact in history.facts:
        if type(fact) is Committed:
            yield from offsets.committed(fact)
        else:
            offsets.hear(fact)


class _Offsets:
    """The highest commit of each process and queue, and what may have moved one back."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._held_up = Disturbances(history, only=HOLDS_UP, after_s=HELD_UP_S)
        self._highest: dict[tuple[str, str, str], int] = {}
        self._latest: dict[tuple[str, str, str], Committed] = {}
        """The one that made it the highest."""
        self._begun: dict[tuple[str, str, str], int] = {}
        self._resets: dict[tuple[str, str], Reset] = {}
        self._remade: dict[str, float] = {}
        self._lost: dict[str, float] = {}

    def hear(self, fact: Fact) -> None:
        if type(fact) is Acquired:
            self._begun[fact.who, fact.group, fact.queue] = fact.offset
        elif type(fact) is Reset:
            where = fact.group, str(fact.queue)
            self._resets[where] = _together(self._resets.get(where), fact)
        elif type(fact) is Remade:
            self._remade[fact.topic] = fact.at
        elif type(fact) is Said and fact.event in {"disconnected", "not connected"}:
            self._lost[fact.who] = fact.at

    def committed(self, fact: Committed) -> Iterator[Violation]:
        key = (fact.by, fact.group, str(fact.queue))
        before = self._highest.get(key, 0)
        if fact.offset < 0:
            yield Violation(NAME, f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group}", fact.at)
        elif fact.offset >= before:
            self._highest[key] = fact.offset
            self._begun.pop(key, None)
            self._latest[key] = fact
        elif fact.at < self._remade.get(fact.queue.topic, -LATE_S) + LATE_S:
            excuse(self._history, NAME, "what was on its way belongs to the topic's former life")
            self._highest[key] = fact.offset
        elif fact.at < self._lost.get(fact.by, -LATE_ON_A_LOST_LINE_S) + LATE_ON_A_LOST_LINE_S:
            # The newer offset is said again, and what the broker has meanwhile costs repeats at most.
            excuse(self._history, NAME, "it was sent on a connection that was lost")
        elif fact.offset >= self._begun.get(key, before):
            # Taken again further back, for instance after the broker had lost commits.
            self._highest[key] = fact.offset
            del self._begun[key]
        elif _is_reset(fact, self._resets.get((fact.group, key[2]))):
            excuse(self._history, NAME, "an administrator moved the group back")
            self._highest[key] = fact.offset
        elif self._held_up.touch(fact.at, fact.at, fact.by):
            # On a pull, which has a connection of its own: the next commit went past it.
            excuse(self._history, NAME, "it was held up on one of two connections")
        elif _overtook(self._latest.get(key), fact):
            excuse(self._history, NAME, "two connections, and the later commit came first")
        else:
            what = f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group}"
            yield Violation(NAME, f"{what} after {before}", fact.at)


def _overtook(newer: Committed | None, late: Committed) -> bool:
    """Whether they came by different connections at about the same time."""
    return newer is not None and newer.is_on_a_pull != late.is_on_a_pull and late.at < newer.at + OVERTAKEN_S


def _together(former: Reset | None, reset: Reset) -> Reset:
    """The later one, as far back as the former while that may still act."""
    if former is None or reset.at >= former.at + LATE_S:
        return reset
    return replace(reset, offset=min(reset.offset, former.offset))


def _is_reset(fact: Committed, reset: Reset | None) -> bool:
    """Whether an administrator has sent the group back there; what it knew before may be told once more in between."""
    return reset is not None and fact.offset >= reset.offset and fact.at < reset.at + LATE_S
