"""Invariants about progress above a gap: what is finished is kept and not begun again, nothing else is passed over."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.late_ends import in_one_life, in_one_taking
from tests.simulation.facts import (
    Acquired,
    Asked,
    Committed,
    Copied,
    Fact,
    Finished,
    Kept,
    PassedOver,
    Remade,
    Reset,
    Skipped,
    Started,
    ThrownAway,
)
from tests.simulation.history import History, machine_of
from tests.simulation.rare.core_marks import FOLDED
from tests.simulation.ways.facts import Repeated

PASSED, REPEATED = "passed over was finished", "what was kept is not repeated"
Key = tuple[str, str]
"""Group and queue."""


def passed_over_was_finished(history: History) -> Iterator[Violation]:
    """No message is passed over that no handler of the group has finished.

    What ends late of a topic's former life is no end of what has those offsets now. An owner that had read what
    was kept before its topic was made anew cannot know.
    """
    former_life = _FormerLife()
    ended: dict[Key, set[int]] = {}
    failed: dict[Key, dict[int, str]] = {}
    copied: set[tuple[str, str]] = set()
    for fact in in_one_life(history):
        former_life.see(fact)
        if isinstance(fact, Finished | Repeated):
            key = (fact.group, str(fact.queue))
            if isinstance(fact, Repeated) or fact.is_ok:
                ended.setdefault(key, set()).add(fact.offset)
            else:
                failed.setdefault(key, {})[fact.offset] = fact.message_id
        elif type(fact) is Copied:
            copied.add((fact.group, fact.message_id))
        elif type(fact) is Skipped:
            ended.setdefault((fact.group, fact.queue), set()).update(range(fact.begin, fact.end))
        elif type(fact) is Remade:
            for offsets in (ended, failed):
                for key in [key for key in offsets if key[1].startswith(f"{fact.topic}@")]:
                    del offsets[key]
        elif type(fact) is PassedOver:
            key = (fact.group, fact.queue)
            for offset in fact.offsets:
                is_copied = (fact.group, failed.get(key, {}).get(offset, "")) in copied
                if offset not in ended.get(key, ()) and not is_copied and not former_life.excuses(fact, history):
                    what = f"{fact.who} passed over {offset} of {fact.queue} for {fact.group}"
                    yield Violation(PASSED, f"{what}; nobody had finished it", fact.at)


class _FormerLife:
    """Who read what was kept of a queue before its topic was last made anew."""

    def __init__(self) -> None:
        self._is_former: dict[tuple[str, str, str], bool] = {}

    def see(self, fact: Fact) -> None:
        if type(fact) is Asked:
            self._is_former[fact.who, fact.group, fact.queue] = False
        elif type(fact) is Remade:
            self._is_former |= {key: True for key in self._is_former if key[2].startswith(f"{fact.topic}@")}

    def excuses(self, fact: PassedOver, history: History) -> bool:
        if is_former := self._is_former.get((fact.who, fact.group, fact.queue), False):
            excuse(history, PASSED, "what was kept had been read in its topic's former life")
        return is_former


def a_flush_covers_what_ended(history: History) -> Iterator[Violation]:
    """When a flush succeeds, everything that its owner had finished before it was built is durable.

    Of what it has started since it took the queue: whatever still runs from before has its result thrown away.
    """
    ended: dict[tuple[str, str, str], dict[int, float]] = {}
    for fact in in_one_taking(history):
        if type(fact) is Finished and fact.is_ok:
            ended.setdefault((fact.who, fact.group, str(fact.queue)), {})[fact.offset] = fact.at
        elif type(fact) is Acquired:
            ended.pop((fact.who, fact.group, fact.queue), None)
        elif type(fact) is Kept:
            mine = ended.get((fact.who, fact.group, fact.queue), {})
            for offset, at in sorted(mine.items()):
                if at < fact.built and offset > fact.low and not _covers(fact.ranges, offset):
                    what = f"{fact.who} kept {fact.queue} for {fact.group} above {fact.low}"
                    yield Violation(
                        "a flush covers what ended", f"{what} without {offset}, which ended at {at:.3f}s", fact.at
                    )


def what_was_kept_is_not_repeated(history: History) -> Iterator[Violation]:
    """No delivery of a message whose end was durable before the acquisition read what was kept.

    An administrator may move a group back, or make a topic anew; and what is not believed any more is repeated, where
    a broker lost a commit or a late one of a former owner moved the offset back. What was kept in doubt of it is
    thrown away, which the acquisition says. A gap that was closed leaves nothing to throw away, so what was committed
    and moved back may be repeated, until it is kept again. A record that is written just behind a topic's end speaks
    of its former life: another message at that offset is no repeat.
    """
    ended: dict[tuple[str, MessageQueue, int], str] = {}
    kept: dict[tuple[str, str, str], Kept] = {}
    asked: dict[tuple[str, str, str], Kept | None] = {}
    owned: dict[tuple[str, str, str], Kept | None] = {}
    moved_back = _MovedBack()
    for fact in history.facts:
        moved_back.see(fact)
        match fact:
            case Kept():
                before = kept.get(_place(fact, history))
                if before is None or fact.epoch >= before.epoch:
                    kept[_place(fact, history)] = fact
            case Asked():
                asked[fact.who, fact.group, fact.queue] = kept.get(_place(fact, history))
            case ThrownAway():
                asked.pop((fact.who, fact.group, fact.queue), None)
                kept.pop(_place(fact, history), None)
            case Acquired():
                key = (fact.who, fact.group, fact.queue)
                owned[key] = asked.pop(key, None)
            case Reset() | Remade():
                kept.clear()
                asked.clear()
                owned.clear()
            case Finished() if fact.is_ok:
                ended[fact.group, fact.queue, fact.offset] = fact.message_id
            case Started():
                mine = owned.get((fact.who, fact.group, str(fact.queue)))
                is_same = ended.get((fact.group, fact.queue, fact.offset)) in {None, fact.message_id}
                if mine is None or not is_same or not _covers(mine.ranges, fact.offset):
                    continue
                if (is_back := moved_back.has(fact)) or FOLDED in history.marks:
                    excuse(history, REPEATED, "its commit was moved back by a late one" if is_back else FOLDED)
                else:
                    what = f"{fact.who} started {fact.offset} of {MessageQueue(*fact.queue)} for {fact.group}"
                    yield Violation(REPEATED, f"{what}; {mine.who} had kept its end at {mine.at:.3f}s", fact.at)
            case _:
                pass


class _MovedBack:
    """What had been committed, and is not any more, since a former owner's commit came late."""

    def __init__(self) -> None:
        self._offsets: dict[Key, set[int]] = {}

    def see(self, fact: Fact) -> None:
        if type(fact) is Committed and fact.before is not None and not fact.is_refused:
            again = range(fact.offset, fact.before)
            self._offsets.setdefault((fact.group, str(fact.queue)), set()).update(again)
        elif type(fact) is Kept:
            moved = self._offsets.get((fact.group, fact.queue), set())
            moved -= {offset for offset in moved if _covers(fact.ranges, offset)}
        elif type(fact) is Remade:
            self._offsets.clear()

    def has(self, fact: Started) -> bool:
        return fact.offset in self._offsets.get((fact.group, str(fact.queue)), ())


def _place(fact: Kept | Asked | ThrownAway, history: History) -> tuple[str, str, str]:
    """Where a queue's record lies: in one place for the whole group, or on each member's own disk."""
    return fact.group, fact.queue, machine_of(fact.who) if fact.group in history.keeping_local else ""


def _covers(ranges: tuple[tuple[int, int], ...], offset: int) -> bool:
    return any(begin <= offset < end for begin, end in ranges)
