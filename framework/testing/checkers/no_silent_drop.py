"""Truth: where a broker says yes to a send-back and keeps nothing, the message is not taken for settled."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import Copied, Finished, History, Remade, Swallowed

NAME = "no silent drop"


def no_silent_drop(history: History) -> Iterator[Violation]:
    """INVARIANTS R4, for brokers that have no room for what a group sends back (`retryQueueNums` 0) and do as stock
    ones do: a copy is had elsewhere, or the message is handled after all. A process that would start without room
    refuses, and names the setting: one that ends by another error is `nothing unexpected`'s.
    """
    if not history.is_drained or any(history.of(Remade)):
        return
    open_: dict[tuple[str, str], Swallowed] = {}
    for fact in history.facts:
        match fact:
            case Swallowed():
                open_[fact.group, fact.message_id] = fact
            case Copied() | Finished(outcome="ok"):
                open_.pop((fact.group, fact.message_id), None)
            case _:
                pass
    for (group, message_id), fact in open_.items():
        if (group, message_id) not in history.dead_letters:
            yield Violation(NAME, f"{group} sent {message_id} back to a broker that kept nothing, and left it", fact.at)
