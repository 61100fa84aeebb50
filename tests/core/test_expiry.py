"""Slot: what one worker runs now, when it is over its limit, and how a handler asks for more time."""

from __future__ import annotations

from framework.core.expiry import BatchSlot, Slot, due, held
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Drop
from tests.core.making import admit, chunk_of, window_at


def busy(index: int = 2, started: float = 100.0) -> Slot:
    slot = Slot()
    slot.chunk, slot.index, slot.started = chunk_of(range(3)), index, started
    return slot


def test_a_new_slot_is_idle() -> None:
    slot = Slot()

    assert slot.chunk is None
    assert () == slot.running
    assert "<Slot idle>" == repr(slot)


def test_a_busy_slot_shows_its_chunk_and_index() -> None:
    slot = busy()

    assert "<Slot <Chunk [0, 3) next=0 low=0 of 3> index=2>" == repr(slot)
    assert ((slot.chunk, 2),) == slot.running


def test_the_limit_counts_from_the_start_of_what_runs() -> None:
    slot = busy()
    assert 160.0 == due(slot, 60.0)
    slot.index, slot.started = 0, 150.0
    assert 210.0 == due(slot, 60.0)


def test_nothing_is_due_where_nothing_runs_or_nothing_limits() -> None:
    assert due(Slot(), 60.0) is None
    assert due(busy(), None) is None
    assert due(busy(index=-1), 60.0) is None, "a thread that has no message yet"
    ended = busy()
    assert ended.chunk is not None
    ended.chunk.finish(2)
    assert due(ended, 60.0) is None


def test_what_has_expired_is_due_no_more_and_what_its_worker_went_on_with_is() -> None:
    """A thread may just have gone on to the next message when it was given up."""
    slot = busy(index=1)
    assert slot.chunk is not None
    slot.verdicts = {(slot.chunk, 1): Drop("timeout")}
    assert due(slot, 60.0) is None
    slot.index = 2
    assert 160.0 == due(slot, 60.0)


def test_more_time_is_for_one_message_and_never_less() -> None:
    slot, now = busy(), [110.0]
    delivery = Delivery("billing", Message("orders"), 100.0, held(slot, lambda: now[0]))

    assert delivery.extend("5m")
    assert 410.0 == due(slot, 60.0)
    assert delivery.extend("1s")
    assert 410.0 == due(slot, 60.0)
    now[0] = 200.0
    assert delivery.extend(300)
    assert 500.0 == due(slot, 60.0)
    assert 1_100.0 == due(slot, 1_000.0), "a longer limit stands"
    slot.index = 1
    assert 160.0 == due(slot, 60.0), "the next message has the usual limit"


def test_a_delivery_knows_whether_it_has_expired_also_when_its_worker_has_gone_on() -> None:
    slot = busy(index=1)
    first = Delivery("billing", Message("orders"), 100.0, held(slot, lambda: 110.0))
    slot.index = 2
    second = Delivery("billing", Message("orders"), 105.0, held(slot, lambda: 110.0))
    assert slot.chunk is not None
    slot.verdicts = {(slot.chunk, 2): Drop("timeout")}

    assert (False, True) == (first.is_expired, second.is_expired)
    assert (True, False) == (first.extend("1m"), second.extend("1m"))


def test_a_delivery_that_nothing_watches_never_expires() -> None:
    delivery = Delivery("billing", Message("orders"), 0.0, held(Slot(), lambda: 0.0))

    assert delivery.extend("1m")
    assert not delivery.is_expired


def test_a_batch_is_one_handler_at_several_messages() -> None:
    chunk = chunk_of(range(3))
    slot = BatchSlot([(chunk, 1, 3)], 10.0)

    assert [(chunk, 1), (chunk, 2)] == slot.running
    assert 70.0 == due(slot, 60.0)


def test_a_batch_of_several_chunks_tells_the_epoch_of_each_message() -> None:
    first, second = window_at(), window_at()
    first.epoch, second.epoch = 3, 5
    slot = BatchSlot([(admit(first, range(4)), 2, 4), (admit(second, range(4)), 0, 1)], 10.0)

    assert [3, 3, 5] == [slot.epoch(at) for at in range(3)]
    assert (3, [2, 3, 0]) == (slot.size, [index for _, index in slot.running])
