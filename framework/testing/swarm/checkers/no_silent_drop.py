"""Invariant: if a broker says yes to a send-back and keeps nothing, the message does not count as settled."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.swarm.checkers.excuses import excuse
from framework.testing.swarm.checkers.room_again import Rooms
from framework.testing.swarm.history import History, Remade

NAME = "no silent drop"


def no_silent_drop(history: History) -> Iterator[Violation]:
    """INVARIANTS R4, for brokers that have no room for what a group sends back (`retryQueueNums` 0) and do as stock
    ones do: a copy is had elsewhere, or the message is handled after all. A process that would start without room
    refuses, and names the setting: one that ends by another error is `nothing unexpected`'s.

    Where the queues are back before the group's settings were read behind the broker's yes, nobody can tell: no client
    of a stock broker sees that such a message is gone.
    """
    if not history.is_drained:
        return
    rooms, remade_at = Rooms(), max((fact.at for fact in history.of(Remade)), default=-1.0)
    for fact in history.facts:
        rooms.hear(fact)
    for (group, message_id), fact in rooms.dropped.items():
        if (group, message_id) in history.dead_letters:
            continue
        if (group, message_id) in rooms.unseen:
            excuse(history, NAME, "the broker had room again before it could be asked")
        elif fact.at < remade_at:
            excuse(history, NAME, "its topic was made anew after that")
        else:
            yield Violation(NAME, f"{group} sent {message_id} back to a broker that kept nothing, and left it", fact.at)
