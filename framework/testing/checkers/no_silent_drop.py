"""Truth: where a broker says yes to a send-back and keeps nothing, the message is not taken for settled."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import Copied, Finished, History, Remade, RoomAgain, Swallowed

NAME = "no silent drop"
READ_S = 3.0
"""How long the question behind a broker's yes may take: a request's patience."""


def no_silent_drop(history: History) -> Iterator[Violation]:
    """INVARIANTS R4, for brokers that have no room for what a group sends back (`retryQueueNums` 0) and do as stock
    ones do: a copy is had elsewhere, or the message is handled after all. A process that would start without room
    refuses, and names the setting: one that ends by another error is `nothing unexpected`'s.

    Where the queues are back before the group's settings were read behind the broker's yes, nobody can tell: no client
    of a stock broker sees that such a message is gone.
    """
    if not history.is_drained or any(history.of(Remade)):
        return
    open_: dict[tuple[str, str], Swallowed] = {}
    for fact in history.facts:
        match fact:
            case Swallowed():
                open_[fact.group, fact.message_id] = fact
            case RoomAgain():
                for key in [key for key, each in open_.items() if key[0] == fact.group and fact.at < each.at + READ_S]:
                    del open_[key]
            case Copied() | Finished(outcome="ok"):
                open_.pop((fact.group, fact.message_id), None)
            case _:
                pass
    for (group, message_id), fact in open_.items():
        if (group, message_id) not in history.dead_letters:
            yield Violation(NAME, f"{group} sent {message_id} back to a broker that kept nothing, and left it", fact.at)
