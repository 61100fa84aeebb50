"""The ways `pop` and `pop-switched`: of each promise a mistake is made in the program, and random seeds notice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from framework.broker.handlers import pop
from framework.broker.pops import Pops
from framework.broker.records import encode
from framework.broker.rounds import Rounds
from framework.broker.store import popped
from framework.broker.store.popped import Overdue, PoppedRow
from framework.broker.store.writer import Transaction
from framework.client.popper import Popper
from framework.client.retry_copies import RetryCopies
from framework.core.held import Entry, Held
from framework.wire.requests.receipts import Receipt
from framework.wire.stored import Record
from tests.simulation.checkers.popped_is_handled import CALM, HANDLED
from tests.simulation.checkers.pops_hold import ACKED, COME_BACK, ONE_HOLDER
from tests.simulation.facts import Fault
from tests.simulation.noticing import is_calm, is_noticed, plans_with
from tests.simulation.plans.plan import Plan
from tests.simulation.simulation import play
from tests.simulation.ways.facts import Acked, Handed, PopFinished, PopStarted, TimeChanged

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long


def fails_often(plan: Plan) -> bool:
    return any(load.pops and load.fail_rate > 0 for load in plan.workload.groups)


def is_hard_on_members(plan: Plan) -> bool:
    return plan.has("crash", "power-cut", "broker-crash", "broker-power-cut", "cut")


def test_calm_runs_pop_renew_and_acknowledge() -> None:
    for plan in islice(plans_with("pop", is_calm), 3):
        verdict, history = play(plan)
        assert verdict.is_ok, verdict.violations
        handed = {fact.message_id for fact in history.of(Handed)}
        assert handed == {fact.message_id for fact in history.of(PopStarted)}
        assert handed == {fact.message_id for fact in history.of(PopFinished)}
        assert any(history.of(Acked))
        assert any(history.of(TimeChanged))


def test_a_group_is_switched_while_it_runs() -> None:
    def is_switched(plan: Plan) -> bool:
        return plan.has("consume-mode")

    plan = next(plans_with("pop-switched", is_switched))
    verdict, history = play(plan)
    assert verdict.is_ok, verdict.violations
    assert "consume-mode" in {fault.kind for fault in history.of(Fault)}
    handed = {fact.message_id for fact in history.of(Handed)}
    assert handed
    assert {fact.message_id for fact in history.of(PopStarted)} - handed  # those were pulled


# -- the box


@pytest.mark.slow
def test_an_acknowledgement_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The box says yes, and keeps one message in three as held."""
    meant = pop._messages  # the mistake is made from outside
    monkeypatch.setattr(pop, "_messages", lambda node, ack: [each for each in meant(node, ack) if each % 3])
    assert is_noticed({ACKED}, "pop")


@pytest.mark.slow
def test_an_acknowledgement_that_takes_a_neighbour_along_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    meant = pop._messages  # the mistake is made from outside

    def one_more(node: Any, ack: Any) -> list[int]:
        found = meant(node, ack)
        return [*found, *(each + 1 for each in found)]

    monkeypatch.setattr(pop, "_messages", one_more)
    assert is_noticed({HANDLED}, "pop", fails_often)


def test_a_time_that_is_over_too_soon_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(connection: sqlite3.Connection, broker: str, now_ms: int, limit: int) -> list[Overdue]:
        return take_due(connection, broker, now_ms + 1_000, limit)

    take_due = popped.take_due
    monkeypatch.setattr(popped, "take_due", early)
    assert is_noticed({COME_BACK}, "pop", lambda plan: fails_often(plan) and not plan.has("clock"))


def test_a_time_that_is_over_too_late_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Rounds.planned

    def forgotten(rounds: Rounds, due_ms: int) -> None:
        if not rounds._failure.startswith("popped"):
            planned(rounds, due_ms)

    monkeypatch.setattr(Rounds, "planned", forgotten)
    assert is_noticed({COME_BACK, "progress"}, "pop", lambda plan: fails_often(plan) and not plan.has("clock"))


def test_a_message_that_comes_back_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    returned = Pops._return  # the mistake is made from outside

    def twice(pops: Pops, transaction: Transaction, overdue: Overdue) -> None:
        returned(pops, transaction, overdue)
        returned(pops, transaction, overdue)

    monkeypatch.setattr(Pops, "_return", twice)
    assert is_noticed({COME_BACK}, "pop", fails_often)


def test_a_return_that_is_not_counted_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncounted(record: Record) -> bytes:
        return encode(replace(record, reconsume_times=max(record.reconsume_times - 1, 0)))

    monkeypatch.setattr("framework.broker.pops.encode", uncounted)
    assert is_noticed({COME_BACK, "progress"}, "pop", fails_often)


def test_a_holder_that_is_not_written_down_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a member holds that ends is lost; so is what failed."""
    put = popped.put

    def forget(connection: sqlite3.Connection, rows: Iterable[PoppedRow]) -> None:
        put(connection, [row for row in rows if row.message % 3])

    monkeypatch.setattr(popped, "put", forget)
    assert is_noticed({HANDLED}, "pop")


def test_a_renewal_that_changes_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The box answers a new receipt, and has the message come back when it was to at first."""
    row = PoppedRow

    def as_before(broker: str, group: str, message: int, popped_ms: int, due_ms: int) -> PoppedRow:
        return row(broker, group, message, popped_ms, min(due_ms, popped_ms + 1_000))

    monkeypatch.setattr(pop, "PoppedRow", as_before)
    assert is_noticed({COME_BACK, ONE_HOLDER}, "pop", lambda plan: not plan.has("clock"))


def test_two_holders_at_once_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What some member holds still is given to another one."""

    def long_before(connection: sqlite3.Connection, broker: str, now_ms: int, limit: int) -> list[Overdue]:
        return take_due(connection, broker, now_ms + 2_000, limit)

    take_due = popped.take_due
    monkeypatch.setattr(popped, "take_due", long_before)
    assert is_noticed({ONE_HOLDER}, "pop", is_hard_on_members)


# -- the member


@pytest.mark.slow
def test_a_renewal_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(held: Held[Receipt], now_ms: int, period_ms: int) -> list[Entry[Receipt]]:
        return []

    monkeypatch.setattr(Held, "to_renew", none)
    assert is_noticed({CALM}, "pop", is_calm)


@pytest.mark.slow
def test_an_acknowledgement_that_is_not_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kept(popper: Popper, receipts: object) -> None:
        return None

    monkeypatch.setattr(Popper, "acknowledge", kept)
    assert is_noticed({CALM}, "pop", is_calm)


@pytest.mark.slow
def test_a_dead_letter_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(copies: RetryCopies, *args: object, **named: object) -> None:
        return None

    monkeypatch.setattr(RetryCopies, "dead_letter", nothing)
    assert is_noticed({HANDLED, "nothing unexpected"}, "pop", has_poison)


def has_poison(plan: Plan) -> bool:
    return any(load.pops and load.poison_rate > 0 for load in plan.workload.groups) and plan.workload.messages > 60
