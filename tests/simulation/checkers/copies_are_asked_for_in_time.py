"""Invariant: no process asks again and again for the copy of one message: it waits longer from try to try."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import CopyAsked
from tests.simulation.history import History

NAME = "copies are asked for in time"
WITHIN_S = 5.0
MOST = 33
"""Requests: a message fails at most once a tenth of a second here, each failure may go four roads where there are two
brokers (a dead letter with its words, a send-back, the other broker, its own once more), and what could not be sent is
tried again after pauses that grow; where those are drawn small, from a third of a second to one second: eight tries
within the time. A loop sends hundreds."""


def copies_are_asked_for_in_time(history: History) -> Iterator[Violation]:
    """What is given up while its lease is gone, or while no broker takes it, must not be sent in a loop: of each such
    request a broker may keep one more dead letter, since it cannot compare plain sends.
    """
    asked: dict[tuple[str, str, str], deque[float]] = {}
    said: set[tuple[str, str, str]] = set()
    for fact in history.of(CopyAsked):
        key = (fact.who, fact.group, fact.message_id)
        lately = asked.setdefault(key, deque())
        lately.append(fact.at)
        while lately[0] < fact.at - WITHIN_S:
            lately.popleft()
        if len(lately) > MOST and key not in said:
            said.add(key)
            what = f"{fact.who} asked {len(lately)} times within {WITHIN_S:g} s for a copy of {fact.message_id}"
            yield Violation(NAME, f"{what} for {fact.group}", fact.at)
