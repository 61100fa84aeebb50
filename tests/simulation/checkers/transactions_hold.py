"""Invariant: consumers get a message where, and only where, its local transaction was committed, once per half one."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import deleted
from tests.simulation.facts import Started
from tests.simulation.history import History
from tests.simulation.ways.facts import Decided, PopStarted

NAME = "transactions hold"


def transactions_hold(history: History) -> Iterator[Violation]:
    """docs/transactions.md. A half message is sent once, though its answer is lost: each of two would be committed."""
    decided = {fact.deal: fact for fact in history.of(Decided)}
    deal_of = {message_id: deal for deal, ids in history.deals.items() for message_id in ids}
    for start in (*history.of(Started), *history.of(PopStarted)):
        deal = deal_of.get(start.message_id)
        if deal is None:
            continue
        end = decided.get(deal)
        if end is None or end.at > start.at:
            yield Violation(NAME, f"{start.group} was given {deal} before it was decided", start.at)
        elif end.state != "commit":
            yield Violation(NAME, f"{start.group} was given {deal}, which was rolled back", start.at)
    gone = max((*deleted(history).values(), history.excused_until))
    for deal, end in decided.items():
        there, begun = len(history.deals.get(deal, ())), history.half_messages.get(deal, 0)
        if end.state == "commit" and begun and not there and history.is_drained and history.stored:
            if end.at < gone:
                excuse(history, NAME, "its topic was made anew")
            else:
                yield Violation(NAME, f"{deal} was committed, and its message is nowhere", end.at)
        elif end.state != "commit" and there:
            yield Violation(NAME, f"{deal} was rolled back, and its message is stored", end.at)
        elif begun > 1:
            yield Violation(NAME, f"{deal} has {begun} half messages", end.at)
        elif there > begun:
            yield Violation(NAME, f"{deal} is stored {there} times, of {begun} half messages", end.at)
