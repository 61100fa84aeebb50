"""Truth: an orderly group handles each queue in the order of its offsets, one message at a time, under its own lock.

Where the order of keys is kept, the same holds for the messages of each key of a queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framework.testing.errors import Violation
from framework.testing.history import Acquired, Copied, Finished, History, Started

NAME = "order kept"


@dataclass(slots=True)
class _Held:
    """One process's time with one queue."""

    following: int
    """The only offset that may start next."""
    epoch: int = 0
    """Which taking of the queue this is: what ends from an earlier one changes nothing."""
    running: Started | None = None
    began: int = 0
    """In which epoch that was started."""
    failed: Finished | None = None


def order_kept(history: History) -> Iterator[Violation]:
    """INVARIANTS O1, O2 and O6, at each start of a handler.

    One handler a queue in a process; none while another process has the broker's lock; the message that was taken up
    first, and then each time the next, or the same again where it failed, until it is finished or a dead letter.
    """
    held: dict[tuple[str, str, str, int], _Held] = {}
    for fact in history.facts:
        match fact:
            case Acquired() if fact.group in history.orderly:
                keys = history.orderly[fact.group]
                for offset in range(fact.offset, fact.offset + keys):
                    before = held.setdefault((fact.who, fact.group, fact.queue, offset % keys), _Held(offset))
                    before.following = offset
                    before.epoch += 1
            case Started() if fact.group in history.orderly:
                mine = held.get(_line(fact, history))
                yield from _started(fact, mine)
            case Finished() if fact.group in history.orderly:
                mine = held.get(_line(fact, history))
                if mine is not None:
                    _finished(fact, mine, history.orderly[fact.group])
            case Copied() if fact.group in history.orderly:
                for mine in held.values():
                    if mine.failed is not None and mine.failed.message_id == fact.message_id:
                        mine.following, mine.failed = mine.failed.offset + history.orderly[fact.group], None
            case _:
                pass


def _line(fact: Started | Finished, history: History) -> tuple[str, str, str, int]:
    return fact.who, fact.group, str(fact.queue), fact.offset % history.orderly[fact.group]


def _started(fact: Started, mine: _Held | None) -> Iterator[Violation]:
    what = f"{fact.who} started {fact.queue} {fact.offset} for {fact.group}"
    if fact.holder not in {"", fact.who}:
        yield Violation(NAME, f"{what} while {fact.holder} held the lock", fact.at)
    if mine is None:
        yield Violation(NAME, f"{what} and had never taken the queue", fact.at)
        return
    if mine.running is not None:
        yield Violation(NAME, f"{what} while {mine.running.offset} was at work", fact.at)
    if fact.offset != mine.following:
        yield Violation(NAME, f"{what}; {mine.following} was next", fact.at)
    mine.running, mine.began, mine.following = fact, mine.epoch, fact.offset


def _finished(fact: Finished, mine: _Held, keys: int) -> None:
    mine.running = None
    if mine.began != mine.epoch:
        return
    mine.failed = None if fact.is_ok else fact
    if fact.is_ok:
        mine.following = fact.offset + keys
