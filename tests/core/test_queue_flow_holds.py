"""The flow of one queue that waits: for room, for an offset that the broker moved, for its end."""

from __future__ import annotations

import pytest

from framework.core.budget import Budget
from framework.core.queue_flow import POSITION, RETIRE, Pull, Wait
from framework.core.window import FlowLimits
from framework.model.pulled import Failed, NothingNew, OffsetIllegal, PullResult
from tests.core.making import PLENTY, THE_RUN, finish
from tests.core.test_queue_flow import FLOWING, HELD, POSITIONING, RELEASED, flow_at, found, new_flow, plain

# Waiting for room


def test_a_full_window_is_held_with_its_reason_until_there_is_room() -> None:
    flow = flow_at(0, bounds=FlowLimits(messages_max=3))
    chunk = flow.pulled(found(0, 1, 2, 3), 0)
    assert chunk is not None

    assert Wait("count") == flow.next_step(0)
    assert (HELD, "count") == (flow.state, flow.held_because)
    assert Wait("count") == flow.next_step(0), "asked again, still full"

    finish(chunk, 0, 1, 2, 3)
    flow.window.settle()
    assert ("pull", 4, 4) == plain(flow, 0)
    assert (FLOWING, None) == (flow.state, flow.held_because)


def test_others_can_use_up_the_budget() -> None:
    budget = Budget(100)
    flow = flow_at(0, budget)
    budget.take(100)
    assert Wait("budget") == flow.next_step(0)

    budget.give(1)
    assert isinstance(flow.next_step(0), Pull)


@pytest.mark.parametrize("reason", ["codec zstd is missing: install zstandard", ""])
def test_a_held_queue_waits_until_it_is_released(reason: str) -> None:
    """Whatever the reason's text: a MemoryError has none."""
    flow = flow_at(0)

    flow.hold_reason = reason
    assert Wait(reason) == flow.next_step(0)
    assert (HELD, reason) == (flow.state, flow.held_because)
    flow.hold_reason = None
    assert isinstance(flow.next_step(0), Pull)
    assert flow.held_because is None


# The broker moves an offset


@pytest.mark.parametrize("corrected", [0, 7, 4_000])
def test_a_corrected_offset_is_taken_at_once(corrected: int) -> None:
    """Back after a reset or a lost log, forward after retention; what was held is outside of the broker's range."""
    budget = Budget(PLENTY)
    flow = flow_at(100, budget)
    flow.run = THE_RUN
    old = flow.pulled(found(100, 101), 0)
    assert old is not None
    before = flow.window

    assert flow.pulled(OffsetIllegal(corrected, 0, 5_000), 0) is None
    assert ("pull", corrected, corrected) == plain(flow, 0)
    assert before.is_closed
    assert old.next == old.count
    assert 0 == budget.used
    assert THE_RUN == flow.window.run

    finish(old, 0, 1)
    before.settle()
    assert ("pull", corrected, corrected) == plain(flow, 0), "what ends in the old window changes nothing"


@pytest.mark.parametrize(
    ("answer", "is_doubted"),
    [
        (OffsetIllegal(99, 0, 99), True),  # a log without its end, or another queue of this name that is as long by now
        (OffsetIllegal(97, 0, 97), True),
        (OffsetIllegal(0, 0, 0), True),  # a log that is gone, or one that is not there yet
        (OffsetIllegal(5_000, 5_000, 9_000), True),  # retention, or a lie that would skip everything between
        (OffsetIllegal(0, 0, 100), False),  # a reset: what was asked for lies inside
        (OffsetIllegal(5_000, 0, 9_000), False),
    ],
)
def test_a_jump_out_of_the_range_has_the_master_asked_first(answer: OffsetIllegal, *, is_doubted: bool) -> None:
    flow = flow_at(98)
    flow.pulled(found(98, 99), 0)
    before = flow.window

    assert flow.pulled(answer, 0) is None
    assert is_doubted != before.is_closed
    if not is_doubted:
        assert (FLOWING, answer.next_offset, None) == (flow.state, flow.next_offset, flow.doubted)
        return
    assert (POSITIONING, answer.next_offset) == (flow.state, flow.doubted)
    assert POSITION is flow.next_step(0)
    flow.positioned(98)
    assert ("pull", 98, 98) == plain(flow, 0)

    flow.pulled(answer, 0)
    assert ("pull", answer.next_offset, answer.next_offset) == plain(flow, 0), "said twice, it is believed"


@pytest.mark.parametrize(
    ("stored", "stays"),
    [(98, True), (99, True), (100, False), (None, False), (0, True)],  # two were found, and the first has ended
)
def test_what_is_held_outlives_a_doubt_where_the_master_knows_of_no_more(stored: int | None, *, stays: bool) -> None:
    """Dropped, it would be pulled and handed out again, for the sake of an answer that was wrong."""
    flow = flow_at(98)
    chunk = flow.pulled(found(98, 99), 0)
    assert chunk is not None
    finish(chunk, 0)
    flow.pulled(OffsetIllegal(0, 0, 0), 0)

    assert stays == flow.stays_after_doubt(stored)
    assert not flow.window.is_closed
    if stays:
        assert ("pull", 100, 99) == plain(flow, 0)
        flow.pulled(OffsetIllegal(0, 0, 0), 0)
        assert ("pull", 0, 0) == plain(flow, 0), "said twice, it is believed"
    else:
        before = flow.window
        flow.positioned(100)
        assert before.is_closed


def test_who_is_sent_back_twice_begins_no_further_than_what_is_stored() -> None:
    """What lies between has not all been handled: the first of two is still at work, or the queue is another one."""
    flow = flow_at(98)
    flow.pulled(found(98, 99), 0)
    flow.pulled(OffsetIllegal(99, 0, 99), 0)
    assert flow.stays_after_doubt(5)
    flow.pulled(OffsetIllegal(99, 0, 99), 0)
    assert ("pull", 5, 5) == plain(flow, 0)


@pytest.mark.parametrize(
    ("answer", "is_back"), [(OffsetIllegal(97, 0, 97), True), (OffsetIllegal(5_000, 5_000, 9_000), False)]
)
def test_who_is_doubted_knows_whether_the_queue_ends_before(answer: OffsetIllegal, *, is_back: bool) -> None:
    flow = flow_at(98)
    assert not flow.is_sent_back
    flow.pulled(answer, 0)
    assert is_back == flow.is_sent_back
    flow.positioned(0)
    flow.pulled(found(0), 0)
    assert not flow.is_sent_back


def test_a_queue_that_nobody_doubts_is_positioned() -> None:
    assert not new_flow().stays_after_doubt(7)


@pytest.mark.parametrize("success", [found(98), NothingNew(98, 0, 98)], ids=lambda each: type(each).__name__)
def test_a_pull_that_succeeds_ends_the_doubt(success: PullResult) -> None:
    flow = flow_at(98)
    flow.pulled(OffsetIllegal(0, 0, 0), 0)
    flow.positioned(98)
    flow.pulled(success, 0)
    assert flow.doubted is None
    flow.pulled(OffsetIllegal(0, 0, 0), 0)
    assert POSITIONING is flow.state


# Taken away


def test_a_queue_taken_away_hands_nothing_out_and_lets_the_running_end() -> None:
    flow = flow_at(0)
    chunk = flow.pulled(found(0, 1, 2), 0)
    assert chunk is not None
    chunk.next = 1

    flow.revoke()
    assert RETIRE is flow.next_step(0)
    assert chunk.next == chunk.count
    finish(chunk, 0)
    assert 1 == flow.window.settle()

    flow.released()
    assert RETIRE is flow.next_step(0)
    assert flow.window.is_closed


def test_a_queue_may_be_taken_away_twice_and_before_it_has_a_position() -> None:
    flow = new_flow()

    flow.revoke()
    flow.revoke()
    assert RETIRE is flow.next_step(0)
    flow.released()
    assert RELEASED is flow.state


@pytest.mark.parametrize(
    "answer",
    [found(0, 1), NothingNew(5, 0, 5), OffsetIllegal(3, 0, 5), Failed("late")],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("is_released", [False, True])
def test_a_pull_answered_after_the_queue_was_taken_away_changes_nothing(
    answer: PullResult, *, is_released: bool
) -> None:
    budget = Budget(PLENTY)
    flow = flow_at(0, budget)
    flow.revoke()
    if is_released:
        flow.released()

    assert flow.pulled(answer, 0) is None
    assert (0, 0, None) == (flow.next_offset, flow.window.end, flow.failure)
    assert 0 == budget.used
    assert RETIRE is flow.next_step(0)


def test_its_repr_is_its_instrument_panel() -> None:
    assert "<QueueFlow orders@broker-a:3 positioning next=0 window=<Window closed>>" == repr(new_flow())
    assert repr(flow_at(5)).startswith("<QueueFlow orders@broker-a:3 flowing next=5 window=<Window [5, 5)")
