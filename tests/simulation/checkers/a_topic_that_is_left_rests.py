"""Invariant: a process that has unsubscribed from a topic starts no message of it until it subscribes again."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.no_more_than_asked import LATE_S
from tests.simulation.facts import Acquired, Fact, Finished, Reassigned, Started, Subscribed
from tests.simulation.history import History

NAME = "a topic that is left rests"


def a_topic_that_is_left_rests(history: History) -> Iterator[Violation]:
    """What of it failed before is still tried again, by way of the retry topic. In calm runs nothing of it that the
    process had finished comes to it again, unless somebody else had the queue in between.
    """
    if not any(history.of(Subscribed)):
        return
    topics = _Topics(history)
    for fact in history.facts:
        if isinstance(fact, Started):
            yield from topics.started(fact)
        else:
            topics.hear(fact)


class _Topics:
    """Who has left which topic when, what each has finished itself, and which queues have had several owners."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._left: dict[tuple[str, str, str], float] = {}
        self._ended: dict[tuple[str, str, str], set[tuple[int, int]]] = {}
        self._owner: dict[tuple[str, str], str] = {}
        self._shared: set[tuple[str, str]] = set()

    def hear(self, fact: Fact) -> None:
        match fact:
            case Subscribed(is_on=True):
                self._left.pop((fact.who, fact.group, fact.topic), None)
            case Subscribed():
                self._left[fact.who, fact.group, fact.topic] = fact.at
            case Finished() if fact.is_ok and fact.group not in self._history.orderly:
                self._ended.setdefault((fact.who, fact.group, str(fact.queue)), set()).add((fact.offset, fact.attempt))
            case Acquired():
                self._owned(fact.who, fact.group, fact.queue)
            case Reassigned():
                for queue in fact.gained:
                    self._owned(fact.who, fact.group, queue)
            case _:
                pass

    def _owned(self, who: str, group: str, queue: str) -> None:
        if self._owner.setdefault((group, queue), who) != who:
            self._shared.add((group, queue))

    def started(self, fact: Started) -> Iterator[Violation]:
        at, queue = self._left.get((fact.who, fact.group, fact.queue.topic)), str(fact.queue)
        what = f"{fact.who} started {fact.offset} of {queue} for {fact.group}"
        if at is not None and fact.group in self._history.threaded and fact.at <= at + LATE_S:
            excuse(self._history, NAME, "a thread began late with what it was given before")
        elif at is not None and fact.group in self._history.once:
            excuse(self._history, NAME, "a message that was begun before waited for its store, or for one of its key")
        elif at is not None:
            yield Violation(NAME, f"{what}, which left the topic at {at:.3f}s", fact.at)
        is_again = (fact.offset, fact.attempt) in self._ended.get((fact.who, fact.group, queue), ())
        if is_again and self._history.is_calm and (fact.group, queue) in self._shared:
            excuse(self._history, NAME, "another process had the queue in between")
        elif is_again and self._history.is_calm:
            yield Violation(NAME, f"{what} again, which it had finished itself", fact.at)
