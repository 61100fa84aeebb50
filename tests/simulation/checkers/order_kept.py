"""Invariant: an orderly group handles each queue in offset order, one message at a time, under its own lock.

Where order is per key, the same holds for the messages of each key of a queue; where handlers take batches, for the
messages of a batch, which start together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import BURIED, DROPPED, Acquired, ByHand, Copied, Finished, Said, Started
from tests.simulation.history import History

NAME = "order kept"


@dataclass(slots=True)
class _Held:
    """One process's time with one queue."""

    following: int
    """The only offset that may start next."""
    step: int = 1
    """How far it is to the next message in line."""
    committed: int = 0
    """What comes again where everything is taken back."""
    epoch: int = 0
    """Which taking of the queue this is: what ends from an earlier one changes nothing."""
    running: list[Started] = field(default_factory=list)
    began: int = 0
    """In which epoch those were started."""
    done: set[int] = field(default_factory=set)
    """Ended well behind one that has not: to be started again with it, unless that is given up."""
    failed: dict[str, int] = field(default_factory=dict)
    """Message -> its offset, for whose copy to look out."""
    given_up: set[int] = field(default_factory=set)

    def forget(self) -> None:
        """Of what the queue's former taking knew nothing is known: what was not committed comes again."""
        self.done.clear()
        self.failed.clear()
        self.given_up.clear()

    def give_up(self, message_id: str) -> None:
        """It has its copy, or is dropped: the next one may come."""
        if message_id in self.failed:
            self.given_up.add(self.failed.pop(message_id))
            self.go_on()

    def go_on(self) -> None:
        while self.following in self.done or self.following in self.given_up:
            self.following += self.step


def order_kept(history: History) -> Iterator[Violation]:
    """Order, at each start of a handler.

    One handler a queue in a process; none while another process has the broker's lock (but a broker that lost power has
    forgotten its locks, and whoever had one cannot know while its connections say nothing of it); the message that was
    taken up first, and then each time the next, or the same again where it failed, until it is finished or a dead
    letter.
    """
    held: dict[tuple[str, str, str, int], _Held] = {}
    for fact in history.facts:
        match fact:
            case Acquired() if fact.group in history.orderly:
                keys = history.orderly[fact.group]
                for offset in range(fact.offset, fact.offset + keys):
                    line = (fact.who, fact.group, fact.queue, offset % keys)
                    before = held.setdefault(line, _Held(offset, keys))
                    before.following = before.committed = offset
                    before.epoch += 1
                    before.forget()
            case Started() if fact.group in history.orderly:
                mine = held.get(_line(fact, history))
                yield from _started(fact, mine, history)
            case Finished() if fact.group in history.orderly:
                mine = held.get(_line(fact, history))
                if mine is not None:
                    _finished(fact, mine, history.max_retries)
            case ByHand():
                mine = held.get(_line(fact, history))
                if mine is not None and mine.began == mine.epoch:
                    _said(fact, mine)
            case Copied() | Said(event="message dropped"):
                _given_up(fact, held)
            case _:
                pass


def _given_up(fact: Copied | Said, held: dict[tuple[str, str, str, int], _Held]) -> None:
    """Whoever is at it goes on; what is dropped is so in its own process."""
    for (who, group, _, _), mine in held.items():
        if isinstance(fact, Copied) and group == fact.group:
            mine.give_up(fact.message_id)
        elif isinstance(fact, Said) and (who, group) == (fact.who, fact.fields["group"]):
            mine.give_up(fact.fields["message_id"])


def _line(fact: Started | Finished | ByHand, history: History) -> tuple[str, str, str, int]:
    return fact.who, fact.group, str(fact.queue), fact.offset % history.orderly[fact.group]


def _started(fact: Started, mine: _Held | None, history: History) -> Iterator[Violation]:
    what = f"{fact.who} started {fact.queue} {fact.offset} for {fact.group}"
    if fact.holder not in {"", fact.who} and fact.is_half_open:
        excuse(history, NAME, "the broker that forgot the lock had not said so")
    elif fact.holder not in {"", fact.who}:
        yield Violation(NAME, f"{what} while {fact.holder} held the lock", fact.at)
    if mine is None:
        yield Violation(NAME, f"{what} and had never taken the queue", fact.at)
        return
    last = mine.running[-1] if mine.running else None
    if last is not None and fact.group in history.batched and fact.at == last.at and fact.offset > last.offset:
        expected = last.offset + mine.step
        while expected in mine.given_up:
            expected += mine.step
        if fact.offset != expected:
            yield Violation(NAME, f"{what}; {expected} was next in its batch", fact.at)
        mine.running.append(fact)
        return
    if last is not None:
        yield Violation(NAME, f"{what} while {last.offset} was at work", fact.at)
    if fact.offset != mine.following:
        yield Violation(NAME, f"{what}; {mine.following} was next", fact.at)
    mine.running, mine.began, mine.following = [fact], mine.epoch, fact.offset
    mine.done.clear()


def _finished(fact: Finished, mine: _Held, max_retries: int) -> None:
    mine.running = [each for each in mine.running if each.offset != fact.offset]
    if mine.began != mine.epoch:
        return
    if fact.is_ok:
        mine.failed.pop(fact.message_id, None)
        # What is dropped is done for good, also behind one that failed and in the same batch.
        (mine.given_up if fact.outcome == DROPPED else mine.done).add(fact.offset)
        mine.go_on()
    elif fact.outcome == BURIED or fact.attempt > max_retries:
        # Only then: the same message may lie in another queue as well, and be given up there.
        mine.failed[fact.message_id] = fact.offset


def _said(fact: ByHand, mine: _Held) -> None:
    if fact.is_commit:
        mine.committed = mine.following
    else:
        mine.following = mine.committed
        mine.done.clear()
        mine.go_on()
