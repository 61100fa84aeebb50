"""A cluster and the processes that settle lots in it, without a network: what a broker may do, at its worst.

A stock broker stores a message at each commit, one of the box at the first alone. An answer may be lost; what was asked
for then takes place at once, later or never. A commit takes place within anybody's pause, or never: that is the one
assumption about time. A record may arrive whenever it likes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from framework.client.dialogue.halves import HalfMessage
from framework.client.dialogue.lot_records import Decided, Record, Standing, body_of, record_in
from framework.client.dialogue.lot_steps import (
    AskEnds,
    CommitSome,
    LookAt,
    Pause,
    Read,
    RollBack,
    Step,
    Steps,
    Write,
    said_of,
    settling,
)
from framework.errors import Refused
from framework.model.queue import MessageQueue

NAME = "query"
CALM_AFTER = 12
"""So many attempts may die; the next one lives."""
QUEUES = [MessageQueue("paid", broker, number) for broker in ("a", "b") for number in (0, 1)]


class Died(Exception):
    """A process ended, here."""


class Field:
    """Brokers, as far as lots see them."""

    def __init__(self, chance: Random, *, is_stock: bool) -> None:
        self.chance, self.is_stock = chance, is_stock
        self.records: list[bytes] = []
        self.stored: dict[MessageQueue, list[str]] = {queue: [] for queue in QUEUES}
        self.ends: dict[str, str] = {}
        """HalfMessage message -> how it ended, in the box."""
        self.late: list[Callable[[], None]] = []
        """Commits that are still to take place, or not."""
        self.late_records: list[bytes] = []
        self.halves: list[HalfMessage] = []
        self.lot_of: dict[str, int] = {}
        self.begun: dict[int, None] = {}
        """Lots with a decision."""

    def standing(self) -> Standing:
        standing = Standing()
        for body in self.records:
            record = record_in(NAME, body)
            assert record is not None
            standing = standing.after(record)
        return standing

    def write(self, record: Record) -> None:
        if isinstance(record, Decided):
            self.begun[record.lot] = None
        self.records.append(body_of(NAME, record))

    def commit(self, half: HalfMessage) -> None:
        lot = self.lot_of[half.message_id]
        assert lot in self.begun, f"{half.message_id} is seen before lot {lot} was decided"
        if not self.is_stock and self.ends.setdefault(half.message_id, "commit") != "commit":
            raise AssertionError(f"{half.message_id} of lot {lot} was rolled back, and is to be committed")
        if self.is_stock or half.message_id not in self.stored[half.queue]:
            self.stored[half.queue].append(half.message_id)

    def roll_back(self, half: HalfMessage) -> None:
        if self.ends.setdefault(half.message_id, "rollback") == "commit":
            return  # refused
        assert half.message_id not in self.stored[half.queue], f"{half.message_id} is rolled back, and was seen"

    def some_late_ones_arrive(self) -> None:
        self.chance.shuffle(self.late)
        for _ in range(self.chance.randrange(len(self.late) + 1)):
            self.late.pop()()
        while self.late_records and self.chance.random() < 0.2:
            self.records.append(self.late_records.pop(0))

    def some_questions_come(self) -> None:
        """About any half message that a broker holds: also of a lot that is being committed."""
        if self.halves and self.chance.random() < 0.2:
            self.ask_about(self.chance.choice(self.halves))

    def ask_about(self, half: HalfMessage) -> None:
        """A broker asks, and does what it is told: never "commit"."""
        said = said_of(self.standing(), self.lot_of[half.message_id])
        assert said != "commit"
        if said == "rollback" and (self.is_stock or half.message_id not in self.ends):
            self.ends.setdefault(half.message_id, "rollback")


class Process:
    """One that settles a lot, until it dies."""

    def __init__(self, field: Field, name: str, lot: int, rows: int, *, trouble: float, in_order: bool) -> None:
        self.field, self.trouble = field, trouble
        self.halves = [
            HalfMessage(field.chance.choice(QUEUES), number, number, f"{lot}.{number}@{name}") for number in range(rows)
        ]
        field.halves += self.halves
        field.lot_of |= {half.message_id: lot for half in self.halves}
        self.steps: Steps = settling(lot, name, self.halves, in_order=in_order)
        self.step: Step | None = next(self.steps)
        self.is_amid = False

    @property
    def is_done(self) -> bool:
        return self.step is None

    def go(self) -> None:
        """Take one step. Died where the process ends before, in or behind it; Refused where it gives up by itself."""
        assert self.step is not None
        self._may_die()
        self.is_amid = True
        answer = self._take(self.step)
        self._may_die()
        try:
            self.step = self.steps.send(answer)
        except StopIteration:
            self.step = None
        self.is_amid = False

    def _may_die(self) -> None:
        self.field.some_late_ones_arrive()
        self.field.some_questions_come()
        if self.field.chance.random() < self.trouble:
            raise Died

    def _take(self, step: Step) -> Any:
        field, chance = self.field, self.field.chance
        match step:
            case Read():
                return field.standing()
            case Write(records):
                for record in records:
                    self._write(record)
            case AskEnds(queues):
                return [(queue, len(field.stored[queue])) for queue in queues]
            case CommitSome(halves, in_order):
                return list(self._commits(halves, in_order=in_order))
            case Pause():
                for late in field.late:
                    if chance.random() < 0.5:
                        late()
                field.late.clear()
            case LookAt(lows):
                return {each for queue, low in lows for each in field.stored[queue][low:]}
            case RollBack(halves):
                for half in halves:
                    if chance.random() < 0.8:
                        field.roll_back(half)
        return None

    def _write(self, record: Record) -> None:
        """Until it is confirmed; dead in between, nobody knows whether the last one was stored, or will be."""
        while self.field.chance.random() < self.trouble:
            draw = self.field.chance.random()
            if draw < 0.4:
                self.field.write(record)
            elif draw < 0.6:
                if isinstance(record, Decided):
                    self.field.begun[record.lot] = None
                self.field.late_records.append(body_of(NAME, record))
            self._may_die()
        self.field.write(record)

    def _commits(self, halves: Any, *, in_order: bool) -> Iterator[HalfMessage]:
        blocked: dict[MessageQueue, None] = {}
        for half in halves:
            if in_order and half.queue in blocked:
                yield half
            elif self.field.chance.random() >= self.trouble:
                self.field.commit(half)
            else:
                draw = self.field.chance.random()
                if draw < 0.4:
                    self.field.commit(half)
                elif draw < 0.8:
                    self.field.late.append(partial(self.field.commit, half))
                blocked[half.queue] = None
                self._may_die()
                yield half


def played(chance: Random, *, is_stock: bool, lots: int = 3, rows: int = 6, trouble: float = 0.15) -> Field:
    """Lots one after the other, each tried until it is settled, some again after that; a former process may live on."""
    field = Field(chance, is_stock=is_stock)
    former: list[Process] = []
    everybody: list[Process] = []
    for lot in range(lots):
        count, in_order = chance.randrange(rows + 1), chance.random() < 0.5
        for attempt in range(200):
            trouble_now = trouble if attempt < CALM_AFTER else 0.0
            process = Process(field, f"p{lot}.{attempt}", lot, count, trouble=trouble_now, in_order=in_order)
            everybody.append(process)
            if _settled(process, former, chance) and chance.random() < 0.7:
                break  # else its driver died before its own log had it, and it is settled again
        _check(field, lot, count)
        for each in everybody:
            for half in each.halves:
                if chance.random() < 0.3:
                    field.ask_about(half)
    for lot in range(lots):
        _check(field, lot, None)
    return field


def _settled(process: Process, former: list[Process], chance: Random) -> bool:
    while not process.is_done:
        others = [each for each in former if not each.is_done]
        if isinstance(process.step, Pause):  # what others had begun to ask for has taken place behind it
            for each in others:
                if isinstance(each.step, CommitSome):
                    _one_step(each, former)
        elif others and chance.random() < 0.3:
            _one_step(chance.choice(others), former)
        try:
            process.go()
        except Died:
            if not process.is_amid and chance.random() < 0.3:
                former.append(process)  # it was only held up, and goes on beside the next one
            return False
        except Refused:
            return False
    return True


def _one_step(process: Process, former: list[Process]) -> None:
    try:
        process.go()
    except (Died, Refused):
        former.remove(process)


def _check(field: Field, lot: int, count: int | None) -> None:
    seen = [each for ids in field.stored.values() for each in ids if field.lot_of[each] == lot]
    times = Counter(each.partition("@")[0] for each in seen)
    assert all(number == 1 for number in times.values()), f"lot {lot}: {times}"
    assert len({each.partition("@")[2] for each in seen}) <= 1, f"lot {lot} is of several attempts: {seen}"
    assert count is None or len(seen) == count, f"lot {lot}: {len(seen)} of {count} rows"
