"""Invariant: a message whose send was acknowledged is at the offset named, after any crash, and offsets are dense."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import deleted
from tests.simulation.facts import Sent
from tests.simulation.history import History

NAME = "acknowledged is stored"


def acknowledged_is_stored(history: History) -> Iterator[Violation]:
    """What a broker acknowledged it has, whole batches or nothing. Asked of the brokers' own logs, at the end, of all
    that was sent to the present life of its topic.
    """
    if not history.stored:
        excuse(history, NAME, "no broker ran at the end")
        return
    gone = deleted(history)
    end = history.facts[-1].at if history.facts else 0.0
    for sent in history.of(Sent):
        if sent.at < gone.get(sent.queue.topic, 0.0):
            continue
        there = history.stored.get(sent.queue, {}).get(sent.offset)
        if there != sent.message_id and sent.at < history.excused_until:
            excuse(history, NAME, "its topic was made anew while it was on its way")
        elif there != sent.message_id:
            found = f"{there} is there" if there else "nothing is there"
            yield Violation(NAME, f"{sent.message_id} at {sent.queue} offset {sent.offset}: {found}", sent.at)
    for queue, messages in sorted(history.stored.items()):
        missing = [offset for offset in range(len(messages)) if offset not in messages]
        if missing:
            yield Violation(NAME, f"{queue} has {len(messages)} messages but none at offset {missing[0]}", end)
