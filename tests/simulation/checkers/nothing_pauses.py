"""Invariant: while queues move between other members, a queue that stays with its owner continues without a pause."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Acquired, Fault, Finished, Life, Reassigned, Sent, Started, Subscribed
from tests.simulation.history import History

NAME = "nothing pauses"
PAUSE_S = 1.5
"""A batch may linger for a second, and a broker take its time with the disk; nothing else waits for half a second."""


def nothing_pauses(history: History, most_s: float = PAUSE_S) -> Iterator[Violation]:
    """A queue that stays with its owner does not pause. In any run: no round takes away what it gives back. In calm
    runs of groups without order: whoever keeps a queue begins with it once, and what is sent to it meanwhile is started
    within a pull, as soon as a worker is free. Not where batches linger behind a window that cannot fill them: two
    messages a second are all that such a queue does, and none of them was paused.
    """
    for fact in history.of(Reassigned):
        for queue in sorted(set(fact.gained) & set(fact.lost)):
            yield Violation(NAME, f"{fact.who} gave up {queue} of {fact.group} to take it anew", fact.at)
    if history.is_calm:
        yield from _Owners(history).pauses(most_s)


class _Owners:
    """Who has which queue since when, and since when its pool has had a free place."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._since: dict[tuple[str, str, str], float] = {}
        self._running: dict[tuple[str, str], int] = {}
        self._free_since: dict[tuple[str, str], float] = {}
        self._sent: dict[str, float] = {}

    def pauses(self, most_s: float) -> Iterator[Violation]:
        unordered = set(self._history.groups) - set(self._history.orderly) - self._history.lingering
        for fact in self._history.facts:
            match fact:
                case Fault(kind="healed"):
                    return  # by which topics may get queues, and the rest of the run is for the last retries
                case Sent():
                    self._sent[fact.message_id] = fact.at
                case Reassigned() | Subscribed() | Life(event="asked to leave"):
                    self._give_up(fact)
                case Acquired() if not fact.is_moved and fact.group in unordered:
                    self._since.setdefault((fact.who, fact.group, fact.queue), fact.at)
                case Started() if fact.group in unordered:
                    yield from self._started(fact, most_s)
                case Finished() if fact.group in unordered:
                    mine = (fact.who, fact.group)
                    if self._running[mine] == self._history.places.get(fact.group, 0):
                        self._free_since[mine] = fact.at
                    self._running[mine] -= 1
                case _:
                    pass

    def _give_up(self, fact: Reassigned | Subscribed | Life) -> None:
        """What is not its own from here on."""
        for key in [key for key in self._since if key[0] == fact.who]:
            _, group, queue = key
            match fact:
                case Reassigned():
                    is_gone = group == fact.group and queue in fact.lost
                case Subscribed():
                    is_gone = group == fact.group and queue.startswith(f"{fact.topic}@")
                case _:
                    is_gone = True
            if is_gone:
                del self._since[key]

    def _started(self, fact: Started, most_s: float) -> Iterator[Violation]:
        mine = (fact.who, fact.group)
        since, sent = self._since.get((*mine, str(fact.queue))), self._sent.get(fact.message_id)
        if fact.attempt == 1 and since is not None and sent is not None and since < sent:
            waited = fact.at - max(sent, self._free_since.get(mine, 0.0))
            if waited > most_s:
                what = f"{fact.who} had {fact.queue} of {fact.group} since {since:.3f}s and a place free"
                yield Violation(NAME, f"{what}; {fact.offset} waited {waited:.3f} s", fact.at)
        self._running[mine] = self._running.get(mine, 0) + 1
