"""Invariant: every message below a committed offset is finished in this group, by some member."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import is_of_former_life
from tests.simulation.checkers.late_ends import in_one_life
from tests.simulation.checkers.room_again import Rooms
from tests.simulation.facts import Acquired, ByHand, Committed, Copied, Finished, Remade, Skipped
from tests.simulation.history import History, place_of
from tests.simulation.ways.facts import Repeated

NAME = "a commit never passes a gap"


class _Queue:
    """What of one queue one group has finished so far."""

    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.failed: dict[int, str] = {}
        """Offset -> message whose copy must be on a broker before the offset counts as finished."""
        self.handled: dict[str, set[int]] = {}
        """Who -> what it has handled and not yet said to be done, where that is said by hand."""
        self.low = 0

    def finished(self, fact: Finished, *, is_by_hand: bool) -> None:
        if not fact.is_ok:
            self.failed[fact.offset] = fact.message_id
        elif is_by_hand:
            self.handled.setdefault(fact.who, set()).add(fact.offset)
        else:
            self.ended.add(fact.offset)

    def said(self, fact: ByHand) -> set[int]:
        """What is finished by that."""
        handled = self.handled.pop(fact.who, set())
        return handled if fact.is_commit else set()


def commit_never_passes_a_gap(history: History) -> Iterator[Violation]:
    """Every offset below a committed one is finished, at each commit that reached a broker. Finished: handled well, or
    failed and the copy confirmed.

    What has none of the group's tags is finished as it is stored. Where commits are made by hand, what was handled well
    is finished when its handler says so, and not before. What ends late of a topic's former life is no end of what has
    those offsets now.
    """
    queues: dict[tuple[str, MessageQueue], _Queue] = {}
    copied: set[tuple[str, str]] = set()
    rooms = Rooms()
    begun: dict[tuple[str, str, str], float] = {}
    remade: dict[str, float] = {}
    for fact in in_one_life(history):
        rooms.hear(fact)
        if type(fact) is Finished:
            queue = queues.setdefault((fact.group, fact.queue), _Queue())
            queue.finished(fact, is_by_hand=fact.group in history.by_hand)
        elif type(fact) is Repeated:
            queues.setdefault((fact.group, fact.queue), _Queue()).ended.add(fact.offset)
        elif type(fact) is ByHand:
            done = queues.setdefault((fact.group, fact.queue), _Queue())
            done.ended |= done.said(fact)
        elif type(fact) is Copied:
            copied.add((fact.group, fact.message_id))
        elif type(fact) is Skipped:
            unwanted = queues.setdefault((fact.group, place_of(fact.queue)), _Queue())
            unwanted.ended |= set(range(fact.begin, fact.end))
        elif type(fact) is Acquired:
            begun[fact.who, fact.group, fact.queue] = fact.at
            _taken_anew(fact, queues)
        elif type(fact) is Remade:
            remade[fact.topic] = fact.at
            queues = {key: queue for key, queue in queues.items() if key[1].topic != fact.topic}
        elif type(fact) is Committed:
            queue = queues.setdefault((fact.group, fact.queue), _Queue())
            queue.ended |= history.passed_by.get((fact.group, str(fact.queue)), set())
            gap = _first_gap(queue, fact.group, copied, rooms.unseen)
            is_former = fact.at < history.excused_until or is_of_former_life(fact, fact.by, begun, remade)
            if fact.offset > gap and is_former:
                excuse(history, NAME, "an offset of its topic's former life")
                queue.low = fact.offset
            elif fact.offset > gap:
                yield Violation(NAME, f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group}; "
                                f"{gap} is not finished", fact.at)  # fmt: skip
                queue.low = fact.offset  # one gap is one violation


def _first_gap(queue: _Queue, group: str, copied: set[tuple[str, str]], unseen: set[tuple[str, str]]) -> int:
    low = queue.low
    while low in queue.ended or (key := (group, queue.failed.get(low, ""))) in copied or key in unseen:
        queue.ended.discard(low)
        low += 1
    queue.low = low
    return low


def _taken_anew(fact: Acquired, queues: dict[tuple[str, MessageQueue], _Queue]) -> None:
    """What was handled before and not said to be done will be handled again."""
    for (group, name), queue in queues.items():
        if queue.handled and group == fact.group and str(name) == fact.queue:
            queue.handled.pop(fact.who, None)
