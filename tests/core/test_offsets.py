"""OffsetTable: committable offsets, and which of them the broker has not been told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.core.offsets import OffsetTable
from framework.model.queue import MessageQueue
from tests.simulation.left_out import left_out

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


def table_at(offset: int, *, stored: int | None) -> OffsetTable:
    table = OffsetTable()
    table.begin(QUEUE, offset, stored=stored)
    return table


@pytest.mark.parametrize(
    ("expected", "offset", "stored"),
    [
        ([], 50, 50),
        ([(QUEUE, 50)], 50, None),
        ([(QUEUE, 50)], 50, 40),
        ([(QUEUE, 0)], 0, None),
        ([], 0, 0),
    ],
)
def test_dirty_is_what_the_broker_does_not_hold(
    expected: list[tuple[MessageQueue, int]], offset: int, stored: int | None
) -> None:
    """Also 0 where nothing is stored, as Java's member tells it: it says that the group was here, and since when."""
    assert expected == table_at(offset, stored=stored).dirty()


def test_an_offset_only_goes_forward() -> None:
    table = table_at(50, stored=50)

    table.advance(QUEUE, 60)
    table.advance(QUEUE, 55)
    assert 60 == table.committable(QUEUE)


def test_a_queue_that_is_not_ours_cannot_advance() -> None:
    """A late end of a queue that was forgotten must not bring its offset back."""
    table = table_at(50, stored=50)
    table.forget(QUEUE)

    table.advance(QUEUE, 60)
    table.mark_sent(QUEUE, 60)
    table.confirmed(QUEUE, 60)
    table.mark_unsent(QUEUE)
    assert table.committable(QUEUE) is None
    assert table.unconfirmed(QUEUE) is None
    assert [] == table.dirty()


def test_what_was_told_is_clean_until_it_moves_on() -> None:
    table = table_at(50, stored=50)
    table.advance(QUEUE, 60)

    table.mark_sent(QUEUE, 60)
    assert [] == table.dirty()
    table.advance(QUEUE, 61)
    assert [(QUEUE, 61)] == table.dirty()


def what_is_dirty_after_moving_during_a_flush() -> list[tuple[MessageQueue, int]]:
    table = table_at(50, stored=50)
    table.advance(QUEUE, 60)
    ((queue, offset),) = table.dirty()
    table.advance(QUEUE, 70)
    table.mark_sent(queue, offset)
    return table.dirty()


def test_what_moved_during_a_flush_stays_dirty() -> None:
    assert [(QUEUE, 70)] == what_is_dirty_after_moving_during_a_flush()


@pytest.fixture
def careless() -> Iterator[None]:
    with left_out("what moved during a flush stays dirty"):
        yield


@pytest.mark.usefixtures("careless")
def test_without_its_safeguard_the_last_offset_is_never_sent() -> None:
    """The mutant that a simulation must notice: offset 70 would wait for the next message."""
    assert [] == what_is_dirty_after_moving_during_a_flush()


def test_an_older_telling_that_arrives_late_takes_nothing_back() -> None:
    table = table_at(50, stored=50)
    table.advance(QUEUE, 70)
    table.mark_sent(QUEUE, 70)

    table.mark_sent(QUEUE, 60)
    assert [] == table.dirty()


def test_what_may_not_have_arrived_is_sent_again() -> None:
    table = table_at(50, stored=50)
    table.advance(QUEUE, 60)
    table.mark_sent(QUEUE, 60)

    table.mark_unsent(QUEUE)
    assert [(QUEUE, 60)] == table.dirty()


def test_telling_is_not_confirming() -> None:
    """A one-way message may be lost; on hand-over only an answer counts."""
    table = table_at(50, stored=50)
    assert table.unconfirmed(QUEUE) is None

    table.advance(QUEUE, 60)
    table.mark_sent(QUEUE, 60)
    assert 60 == table.unconfirmed(QUEUE)

    table.confirmed(QUEUE, 60)
    assert table.unconfirmed(QUEUE) is None


def test_a_confirmed_offset_is_clean_as_well() -> None:
    table = table_at(50, stored=50)
    table.advance(QUEUE, 60)

    table.confirmed(QUEUE, 60)
    assert [] == table.dirty()


def test_an_offset_that_moved_during_its_confirmation_is_unconfirmed() -> None:
    table = table_at(50, stored=50)
    table.advance(QUEUE, 60)
    table.advance(QUEUE, 70)

    table.confirmed(QUEUE, 60)
    assert 70 == table.unconfirmed(QUEUE)
    assert [(QUEUE, 70)] == table.dirty()


def test_a_zero_is_told_where_nothing_is_stored_and_only_once() -> None:
    table = table_at(0, stored=None)
    assert 0 == table.unconfirmed(QUEUE)
    table.mark_sent(QUEUE, 0)
    assert [] == table.dirty()
    table.confirmed(QUEUE, 0)
    table.mark_unsent(QUEUE)
    assert ([], None) == (table.dirty(), table.unconfirmed(QUEUE)), "a late one could move somebody else's offset back"


def test_a_queue_moved_back_by_its_broker_begins_anew() -> None:
    """After a reset the lower offset is the truth, and the broker is told so."""
    table = table_at(900, stored=900)

    table.begin(QUEUE, 100, stored=None)
    assert [(QUEUE, 100)] == table.dirty()
    assert 100 == table.unconfirmed(QUEUE)


def test_dirty_queues_come_in_the_order_of_queues() -> None:
    table = OffsetTable()
    table.begin(OTHER, 2, stored=None)
    table.begin(QUEUE, 1, stored=None)

    assert [(QUEUE, 1), (OTHER, 2)] == table.dirty()
    assert "<OffsetTable 2 queues, 2 dirty>" == repr(table)


def test_what_was_sent_before_a_queue_moved_back_says_nothing_of_it_now() -> None:
    """The answer comes behind the move: when progress is as far again, the broker must be told again."""
    table = table_at(20, stored=20)
    table.begin(QUEUE, 5, stored=None)
    table.mark_sent(QUEUE, 20)
    table.confirmed(QUEUE, 20)
    assert (-1, [(QUEUE, 5)]) == (table.held(QUEUE), table.dirty())
    table.advance(QUEUE, 20)
    assert (20, [(QUEUE, 20)]) == (table.unconfirmed(QUEUE), table.dirty())


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["advance", "told", "confirmed", "untold", "flush"]), st.integers(0, 30)), max_size=40
    )
)
def test_once_all_is_quiet_the_broker_holds_the_highest_offset(steps: list[tuple[str, int]]) -> None:
    """Whatever was told, lost and confirmed in between: what is not clean at the end is sent."""
    table = table_at(0, stored=None)
    highest, broker = 0, -1
    sent: list[int] = []

    for step, number in steps:
        match step:
            case "advance":
                table.advance(QUEUE, number)
                highest = max(highest, number)
            case "told":
                sent = [offset for _, offset in table.dirty()]
                for offset in sent:
                    table.mark_sent(QUEUE, offset)
                    broker = max(broker, offset)
            case "untold":
                table.mark_unsent(QUEUE)
            case "confirmed":
                table.confirmed(QUEUE, broker)
            case _:
                wanted = table.unconfirmed(QUEUE)
                broker = broker if wanted is None else wanted
                table.confirmed(QUEUE, broker)
        assert highest == table.committable(QUEUE)
        if not table.dirty():
            assert highest == broker
        if table.unconfirmed(QUEUE) is None:
            assert highest == broker
