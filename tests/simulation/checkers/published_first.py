"""Invariant: what a handler returned is stored by a broker before its message is done, and nothing else is sent."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import OK, Finished
from tests.simulation.history import History
from tests.simulation.ways.facts import Published, Returned

NAME = "published first"


def published_first(history: History) -> Iterator[Violation]:
    """docs/handlers.md, "Publishing". A broker's acknowledgement is counted as it leaves the broker, so each token of
    a delivery has left before its process calls it a success. That a message is done no sooner is `a commit never
    passes a gap`. A token that was sent more than once is a send that was repeated.
    """
    waiting: dict[tuple[str, str, str], set[str]] = {}
    """What the last delivery of a message in a process returned, and was not acknowledged yet. By its place: two copies
    of a message may be at work at once."""
    returned: set[str] = set()
    for fact in history.facts:
        match fact:
            case Returned():
                returned.add(fact.token)
                waiting.setdefault((fact.who, fact.group, f"{fact.queue} {fact.offset}"), set()).add(fact.token)
            case Published():
                if fact.token not in returned:
                    yield Violation(NAME, f"a broker was sent {fact.token!r}, which no handler has returned", fact.at)
                for tokens in waiting.values():
                    tokens.discard(fact.token)
            case Finished() if fact.group in history.publishing:
                left = waiting.pop((fact.who, fact.group, f"{fact.queue} {fact.offset}"), set())
                if left and fact.outcome == OK:
                    what = f"{fact.who} was done with {fact.message_id} for {fact.group}"
                    yield Violation(NAME, f"{what}, and {', '.join(sorted(left))} was not stored yet", fact.at)
            case _:
                pass
