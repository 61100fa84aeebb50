"""The facts without results that come too late to change anything.

If a handler runs on while its queue is acquired again, or its topic is made again, its result is discarded, and its
offset may be another message's by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.facts import Acquired, Fact, Finished, Remade, Started
from tests.simulation.history import History

Place = tuple[str, ...]
"""What is taken or made anew: a process's queue of a group, or a topic."""


def in_one_taking(history: History) -> Iterator[Fact]:
    """Without ends of handlers that began before their process last took the queue."""
    return _in_time(history, lambda fact: (fact.who, fact.group, str(fact.queue)))


def in_one_life(history: History) -> Iterator[Fact]:
    """Without ends of handlers that began before their topic was last made anew."""
    return _in_time(history, lambda fact: (fact.queue.topic,))


def _in_time(history: History, place_of: Callable[[Finished], Place]) -> Iterator[Fact]:
    begun: dict[Place, list[float]] = {}
    """Several where a queue was moved back while a handler still ran; untold which, the first is taken to end first."""
    anew: dict[Place, float] = {}
    for fact in history.facts:
        match fact:
            case Started():
                begun.setdefault(_message_of(fact), []).append(fact.at)
            case Acquired():
                anew[fact.who, fact.group, fact.queue] = fact.at
            case Remade():
                anew[(fact.topic,)] = fact.at
            case Finished():
                since = begun.get(_message_of(fact))
                at = since.pop(since.index(fact.since) if fact.since in since else 0) if since else fact.since
                if at is not None and at < anew.get(place_of(fact), 0.0):
                    continue
            case _:
                pass
        yield fact


def _message_of(fact: Started | Finished) -> Place:
    return fact.who, fact.group, str(fact.queue), fact.message_id
