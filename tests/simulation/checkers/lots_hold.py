"""Invariant: each message of a settled lot is stored once, and no handler is given one before its lot was decided."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import deleted
from tests.simulation.facts import Started
from tests.simulation.history import History
from tests.simulation.ways.facts import LotDecided, LotSettled, PopStarted

NAME = "lots hold"


def lots_hold(history: History) -> Iterator[Violation]:
    """docs/transactions.md. A lot may be prepared several times, by desks that died: one of these counts."""
    decided: dict[int, float] = {}
    for fact in history.of(LotDecided):
        decided.setdefault(fact.lot, fact.at)
    row_of = {message_id: row for row, ids in history.loads.items() for message_id in ids}
    for start in (*history.of(Started), *history.of(PopStarted)):
        row = row_of.get(start.message_id)
        if row is not None and start.at < decided.get(_lot_of(row), start.at + 1):
            yield Violation(NAME, f"{start.group} was given {row} before its lot was decided", start.at)
    gone = max((*deleted(history).values(), history.excused_until))
    for settled in history.of(LotSettled):
        for number in range(settled.rows):
            row = f"lot-{settled.lot}.{number}"
            times = len(history.loads.get(row, ()))
            if times > 1:
                yield Violation(NAME, f"{row} is stored {times} times", settled.at)
            elif not times and history.is_drained and history.stored:
                if decided.get(settled.lot, 0.0) < gone:
                    excuse(history, NAME, "its topic was made anew")
                else:
                    yield Violation(NAME, f"lot {settled.lot} is settled, and {row} is nowhere", settled.at)


def _lot_of(row: str) -> int:
    return int(row.removeprefix("lot-").partition(".")[0])
