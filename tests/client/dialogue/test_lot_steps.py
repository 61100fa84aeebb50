"""Whatever dies, is lost or comes late: each message of a lot is there once, and none before it was decided."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.client.dialogue import lot_steps
from framework.client.dialogue.halves import HalfMessage, packed, unpacked
from framework.client.dialogue.lot_records import Claimed, Decided, Done, Piece, Standing, body_of, decision, record_in
from framework.client.dialogue.lot_steps import Step, said_of
from framework.errors import ProtocolError
from framework.model.queue import MessageQueue
from tests.client.dialogue import lot_model
from tests.client.dialogue.lot_model import Process, played

MANY = int(os.environ.get("LOTS", "300"))
QUEUE = MessageQueue("t", "b", 0)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lot_steps, "AT_ONCE", 2)


@settings(max_examples=MANY, deadline=None, print_blob=True)
@given(st.integers(0, 1 << 40), st.booleans(), st.sampled_from([0.02, 0.1, 0.25]))
def test_each_message_of_a_lot_is_there_once(seed: int, is_stock: bool, trouble: float) -> None:
    played(Random(seed), is_stock=is_stock, trouble=trouble)


MISTAKES = [
    "no pause", "no look", "no claim", "the last decision counts", "no decision", "what is not confirmed is left",
    "a question rolls back",
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_steps_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each part of it is for: without it a stock broker has a message twice, or one is lost."""
    if mistake == "no pause":
        monkeypatch.setattr(lot_model, "Pause", _Never)
    elif mistake == "no look":
        monkeypatch.setattr(lot_model, "LookAt", _Never)
        monkeypatch.setattr(Process, "_take", _with(Process._take, lot_steps.LookAt, set()))
    elif mistake == "no claim":
        monkeypatch.setattr(lot_steps, "_hold", lambda standing, token: None)
    elif mistake == "the last decision counts":
        monkeypatch.setattr(Standing, "after", _last_counts(Standing.after))
    elif mistake == "what is not confirmed is left":
        monkeypatch.setattr(Process, "_take", _all_confirmed(Process._take))
    elif mistake == "a question rolls back":
        monkeypatch.setattr(lot_model, "said_of", lambda standing, lot: "rollback")
    else:
        monkeypatch.setattr(Process, "_take", _with(Process._take, lot_steps.Write, None))
        monkeypatch.setattr(lot_model.Field, "standing", lambda self: Standing())

    with pytest.raises(AssertionError, match="lot"):
        _played_often()


def _played_often() -> None:
    for seed in range(3_000):
        played(Random(seed), is_stock=seed % 4 > 0, trouble=0.2)


def _all_confirmed(take: Callable[[Process, Step], Any]) -> Callable[[Process, Step], Any]:
    def taken(self: Process, step: Step) -> Any:
        answer = take(self, step)
        return [] if isinstance(step, lot_steps.CommitSome) else answer

    return taken


class _Never:
    """No step is one."""


def _with(take: object, kind: type, answer: object) -> object:
    return lambda self, step: answer if isinstance(step, kind) else take(self, step)  # type: ignore[operator]


def _last_counts(after: object) -> object:
    def changed(self: Standing, record: object) -> Standing:
        if isinstance(record, Decided) and self.pending is not None and record.lot == self.lot:
            return Standing(record.lot, record, record.token)
        return after(self, record)  # type: ignore[operator, no-any-return]

    return changed


def test_a_check_never_commits() -> None:
    standing = Standing()
    assert "unknown" == said_of(standing, 0)
    standing = standing.after(Decided(3, "a", 0, packed([])))
    assert ["rollback", "unknown", "unknown"] == [said_of(standing, lot) for lot in (2, 3, 4)]
    standing = standing.after(Done(3))
    assert ["rollback", "rollback", "unknown"] == [said_of(standing, lot) for lot in (2, 3, 4)]


def test_of_two_decisions_the_first_counts_and_of_two_claims_the_last() -> None:
    first, second = Decided(0, "a", 0, packed([])), Decided(0, "b", 0, packed([]))
    standing = Standing().after(first).after(second)

    assert (first, "a") == (standing.pending, standing.claim)
    assert "c" == standing.after(Claimed(0, "b")).after(Claimed(0, "c")).claim
    assert standing.after(Done(0)).after(second).is_over(0)


def test_a_long_list_goes_in_pieces_and_one_that_was_written_again_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("framework.client.dialogue.lot_records.PIECE_BYTES", 50)
    halves = [HalfMessage(QUEUE._replace(number=n % 3), n * 977, n, f"{n * 7919:032X}") for n in range(100)]
    records = decision(5, "a", halves, [(QUEUE, 9)], in_order=True)
    assert len(records) > 3
    standing = Standing()
    for record in [*records[:2], Piece("z", 0, b"another's"), *records[:-1], records[-1], *records]:
        again = record_in("n", body_of("n", record))
        assert record == again
        standing = standing.after(again)

    assert halves == standing.halves()
    assert standing.pending is not None
    assert (((QUEUE, 9),), True) == (standing.pending.lows, standing.pending.in_order)


def test_what_is_no_record_or_no_list_is_a_protocol_error() -> None:
    assert record_in("other", body_of("n", Done(1))) is None
    for body in (b"", b"{}", b'{"v":1}\n', b'{"v":2,"name":"n"}\n', b'{"v":1,"name":"n","kind":"x"}\n', b"[]\n"):
        with pytest.raises(ProtocolError, match="a record of lots cannot be read"):
            record_in("n", body)
    for data in (b"junk", packed([HalfMessage(QUEUE, 1, 1, "A")])[:-3], b"\x00"):
        with pytest.raises(ProtocolError, match="a list of half messages cannot be read"):
            unpacked(data)
    standing = Standing().after(Decided(0, "a", 1, b""))
    with pytest.raises(ProtocolError, match="1 pieces of its list are missing"):
        standing.halves()
