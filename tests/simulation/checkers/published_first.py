"""Invariant: what a handler returned is stored by a broker before its message is done, and nothing else is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import OK, Finished, Started
from tests.simulation.history import History
from tests.simulation.ways.facts import Published, Returned

NAME = "published first"


def published_first(history: History) -> Iterator[Violation]:
    """docs/handlers.md, "Publishing". A broker's acknowledgement is counted as it leaves the broker, so each token of
    a delivery has left before its process calls it a success. That a message is done no sooner is `a commit never
    passes a gap`. A token that was sent more than once is a send that was repeated.

    A process may be at one message twice, where its queue was moved or its copy overtook it: the one that ends first
    may be the one that has nothing left to send. So no more may be unsent than are still at work.
    """
    at_work: Counter[tuple[str, str, str]] = Counter()
    waiting: dict[tuple[str, str, str], list[set[str]]] = {}
    """What runs of a message in a process returned, each by itself, and was not acknowledged yet."""
    returned: set[str] = set()
    came: dict[tuple[str, str, str], float] = {}
    for fact in history.facts:
        match fact:
            case Started() if fact.group in history.publishing:
                at_work[_place(fact)] += 1
            case Returned():
                returned.add(fact.token)
                runs = waiting.setdefault(_place(fact), [])
                if not runs or came[_place(fact)] != fact.at:  # what one run returns, it returns at once
                    runs.append(set())
                    came[_place(fact)] = fact.at
                runs[-1].add(fact.token)
            case Published():
                if fact.token not in returned:
                    yield Violation(NAME, f"a broker was sent {fact.token!r}, which no handler has returned", fact.at)
                for runs in waiting.values():
                    for tokens in runs:
                        tokens.discard(fact.token)
            case Finished() if fact.group in history.publishing:
                place = _place(fact)
                at_work[place] = max(at_work[place] - 1, 0)
                unsent = [tokens for tokens in waiting.pop(place, []) if tokens]
                if len(unsent) > at_work[place] and fact.outcome == OK:
                    what = f"{fact.who} was done with {fact.message_id} for {fact.group}"
                    yield Violation(NAME, f"{what}, and {', '.join(sorted(unsent[0]))} was not stored yet", fact.at)
                waiting[place] = unsent[max(len(unsent) - at_work[place], 0) :]
            case _:
                pass


def _place(fact: Started | Returned | Finished) -> tuple[str, str, str]:
    return fact.who, fact.group, f"{fact.queue} {fact.offset}"
