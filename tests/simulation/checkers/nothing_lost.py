"""Invariant: every message whose send was acknowledged is finished at least once in each group, or is a dead letter."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import deleted, skipped
from tests.simulation.checkers.room_again import Rooms
from tests.simulation.facts import Finished, Sent, Skipped
from tests.simulation.history import History
from tests.simulation.ways.facts import Repeated

NAME = "nothing lost"


def nothing_lost(history: History) -> Iterator[Violation]:
    """Every acknowledged message is finished. Meaningful once everything was to be handled. What a group's rules skip
    is settled (`skips by rule`), what its strategy leaves without an owner is not its own (`only who is named`), and of
    broadcasting groups each member is asked (`everybody is told`). What a broker dropped unseen is excused (`no silent
    drop`).
    """
    if not history.is_drained:
        return
    finished = {(fact.group, fact.message_id) for fact in history.of(Finished) if fact.is_ok}
    finished |= {(fact.group, fact.message_id) for fact in history.of(Repeated)}
    unwanted = {
        (fact.group, fact.queue, offset) for fact in history.of(Skipped) for offset in range(fact.begin, fact.end)
    }
    former, gone, rooms = skipped(history), deleted(history), Rooms()
    for fact in history.facts:
        rooms.hear(fact)
    for sent in history.of(Sent):
        if sent.at < gone.get(sent.queue.topic, 0.0):
            continue
        for group in history.groups:
            key, queue = (group, sent.message_id), str(sent.queue)
            if group in history.broadcasting or not history.reads(group, sent.queue.topic):
                continue
            if (group, queue, sent.offset) in unwanted or history.is_nobodys(group, queue):
                continue
            if key in finished or key in history.dead_letters or sent.message_id in history.unwanted.get(group, ()):
                continue
            if sent.at < history.excused_until:
                excuse(history, NAME, "its topic was made anew while it was on its way")
            elif sent.offset < former.get((group, sent.queue), 0):
                excuse(history, NAME, "an offset of its topic's former life was committed")
            elif key in rooms.unseen:
                excuse(history, NAME, "the broker dropped it, and had room again before it could be asked")
            else:
                yield Violation(
                    NAME, f"group {group} never finished {sent.message_id} ({sent.queue} {sent.offset})", sent.at
                )
