"""Invariant: if a broker says yes to a send-back and keeps nothing, the message does not count as settled."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.room_again import Rooms
from tests.simulation.facts import CopyAsked, Finished, Remade
from tests.simulation.history import History

NAME = "no silent drop"


def no_silent_drop(history: History) -> Iterator[Violation]:
    """No failed message is dropped in silence, by brokers that have no room for what a group sends back
    (`retryQueueNums` 0) and do as stock ones do: a copy is had elsewhere, or the message is handled after all. A
    process that would start without room refuses, and names the setting: one that ends by another error is `nothing
    unexpected`'s.

    Where the queues are back before the group's settings were read behind the broker's yes, nobody can tell: no client
    of a stock broker sees that such a message is gone.
    """
    if not history.is_drained:
        return
    rooms, remade_at = Rooms(), max((fact.at for fact in history.of(Remade)), default=-1.0)
    handled: dict[tuple[str, str], set[str]] = {}
    asked: dict[tuple[str, str], str] = {}
    for fact in history.facts:
        rooms.hear(fact)
        if type(fact) is Finished and fact.is_ok:
            handled.setdefault((fact.group, fact.message_id), set()).add(fact.who)
        elif type(fact) is CopyAsked:
            asked[fact.group, fact.message_id] = fact.who
    for (group, message_id), swallowed in rooms.dropped.items():
        if (group, message_id) in history.dead_letters:
            continue
        if (group, message_id) in rooms.unseen:
            excuse(history, NAME, "the broker had room again before it could be asked")
        elif _was_handled_by_another(handled.get((group, message_id), set()), asked.get((group, message_id))):
            excuse(history, NAME, "another member had handled it")
        elif swallowed.at < remade_at:
            excuse(history, NAME, "its topic was made anew after that")
        else:
            yield Violation(
                NAME, f"{group} sent {message_id} back to a broker that kept nothing, and left it", swallowed.at
            )


def _was_handled_by_another(handled: set[str], asked: str | None) -> bool:
    """Than by the one that asked for the copy: its offset is committed by that one."""
    return asked is not None and bool(handled - {asked})
