"""Invariants: a popped message has one holder until its time is over, comes back then, and not if acked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import deleted
from tests.simulation.checkers.retries_come import CLOCK_S, HOLDS, LATE_S, RESTARTED_S
from tests.simulation.facts import Fact, Fault
from tests.simulation.history import History
from tests.simulation.ways.facts import Acked, Handed, Receipted, TimeAsked, TimeChanged

ONE_HOLDER, ACKED, COME_BACK = "a popped message has one holder", "acked is done", "popped messages come back"
EXACT_S = 0.055
"""Healing sets the brokers' wall clock right, by 50 ms at most, and short steps of it are followed."""
Key = tuple[str, str]
"""Group and message id."""


@dataclass(slots=True)
class Hold:
    """What brokers have answered of one message at one place, and what was asked of them since."""

    receipt: int
    who: str
    until: float
    """No sooner may another be given it."""
    due: float | None
    """When it comes back; None where that hangs on a request whose answer is not known."""
    attempt: int


def pops_hold(history: History) -> Iterator[Violation]:
    """docs/popping.md, held against what the wire showed. What was sent twice has one id and is two messages: it is not
    asked about. A group that is switched to pulling moves its offsets back, and may be given anything again.
    """
    if not history.popping - history.switched:
        return
    known = Counter(message_id for ids in history.stored.values() for message_id in ids.values())
    retries = [
        (at, group, message_id, attempt)
        for group, message_id, attempt, at in history.pop_retries
        if group not in history.switched and known[message_id] == 1
    ]
    for (group, message_id, attempt), count in sorted(Counter(each[1:] for each in retries).items()):
        if count > 1:
            what = f"{message_id} came back to {group} {count} times for attempt {attempt}"
            yield Violation(COME_BACK, what, history.facts[-1].at)
    is_set = any(fact.kind == "clock" and fact.who == "broker" for fact in history.of(Fault))
    if not is_set:  # by it what came back is dated
        yield from _Holds(history, known).walk(sorted(retries))
    else:
        yield from _Holds(history, known).walk([])


class _Holds:
    def __init__(self, history: History, known: Counter[str]) -> None:
        self._history, self._known = history, known
        self._holds: dict[Key, dict[tuple[MessageQueue, int], Hold]] = {}
        self._at: dict[tuple[str, MessageQueue, int], Key] = {}
        self._acked: dict[Key, Acked] = {}
        self._first: dict[Key, tuple[MessageQueue, int]] = {}
        self._gone, self._twice = deleted(history), set[Key]()
        self._delays = Disturbances(history, after_s=RESTARTED_S, only=HOLDS)

    def walk(self, retries: list[tuple[float, str, str, int]]) -> Iterator[Violation]:
        """`retries`: what came back, and when; among the facts by its time."""
        waiting = iter(retries)
        following = next(waiting, None)
        for fact in self._history.facts:
            # A moment later, since its broker's wall clock may be ahead.
            while following is not None and following[0] + CLOCK_S < fact.at:
                yield from self._came(*following)
                following = next(waiting, None)
            if isinstance(fact, Receipted):
                yield from self._hear(fact)

    def _hear(self, fact: Fact) -> Iterator[Violation]:
        if isinstance(fact, Handed):
            yield from self._handed(fact)
            return
        assert isinstance(fact, Receipted)
        key = self._at.get((fact.group, *fact.place))
        hold = None if key is None else self._holds[key].get(fact.place)
        if key is None or hold is None:
            return
        match fact:
            case TimeAsked() if fact.receipt == hold.receipt:
                hold.until, hold.due = min(hold.until, fact.at + fact.seconds), None
            case TimeChanged() if fact.receipt == hold.receipt:
                hold.receipt, hold.until, hold.due = fact.renewed, fact.until, fact.until
            case Acked() if fact.receipt == hold.receipt and hold.due is not None and fact.at < hold.due:
                self._acked.setdefault(key, fact)
                self._history.marks["popped: acknowledged"] = self._history.marks.get("popped: acknowledged", 0) + 1
            case _:
                pass

    def _handed(self, fact: Handed) -> Iterator[Violation]:
        if fact.group in self._history.switched or self._known[fact.message_id] != 1:
            return
        key = fact.group, fact.message_id
        is_another = fact.attempt == 1 and self._first.setdefault(key, fact.place) != fact.place
        if is_another and fact.place[0].topic in self._gone:
            self._twice.add(key)  # the first went with its topic's former life, of which nobody knows what was stored
            excuse(self._history, ACKED, "it was sent again, and its topic had been made anew meanwhile")
        if key in self._twice:
            return
        holds = self._holds.setdefault(key, {})
        what = f"{fact.who} was given {fact.message_id} of {fact.group}"
        if (done := self._acked.get(key)) is not None:
            yield Violation(ACKED, f"{what}; {done.who} had acknowledged it at {done.at:.3f}s", fact.at)
        for hold in holds.values():
            if fact.since < hold.until - EXACT_S:
                yield Violation(ONE_HOLDER, f"{what}; {hold.who} had it until {hold.until:.3f}s", fact.at)
        holds[fact.place] = Hold(fact.receipt, fact.who, fact.until, fact.until, fact.attempt)
        self._at[fact.group, *fact.place] = key

    def _came(self, at: float, group: str, message_id: str, attempt: int) -> Iterator[Violation]:
        """A message came back for this attempt, at its broker's wall clock."""
        if (group, message_id) in self._twice:
            return
        history, holds = self._history, self._holds.get((group, message_id), {})
        hold = next((each for each in holds.values() if each.attempt == attempt - 1), None)
        if hold is None:
            return
        late_s = LATE_S + CLOCK_S + history.syncs_waited_for * history.sync_s
        what = f"{message_id} came back to {group} for attempt {attempt}"
        if at < hold.until - CLOCK_S:
            yield Violation(COME_BACK, f"{what}, and {hold.who} had it until {hold.until:.3f}s", at)
        if hold.due is None:
            excuse(history, COME_BACK, "an answer was lost that said when")
            return
        due = hold.due
        while (back := self._delays.until(due - late_s, due + late_s)) is not None and back > due:
            due = back
        if at > due + late_s:
            yield Violation(COME_BACK, f"{what}, and was due at {due:.3f}s", at)
