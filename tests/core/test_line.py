"""Line: one message at a time, in the order of offsets, and a failing one stays first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.core.line import Line, Portion
from tests.core.making import admit, window_at


def line_of(*chunks: list[int]) -> Line:
    line, window = Line(), window_at()
    for offsets in chunks:
        chunk = admit(window, offsets)
        line.offer(Portion(chunk, chunk.messages))
    return line


def advance(line: Line, count: int = 1) -> None:
    portion = line.first
    assert portion is not None
    line.advance(portion, count)


def test_messages_come_in_the_order_of_their_offsets() -> None:
    line, seen = line_of([0, 1], [2], [5, 6]), []
    while line.first is not None:
        seen.append(line.message.queue_offset)
        advance(line)

    assert [0, 1, 2, 5, 6] == seen


def test_what_has_ended_is_committable() -> None:
    line = line_of([0, 1, 2])
    portion = line.first
    assert portion is not None
    chunk = portion.chunk

    advance(line, 2)
    assert (2, 2) == (chunk.low, portion.next)
    assert 2 == chunk.window.settle()
    advance(line)
    assert line.first is None
    assert 3 == chunk.window.settle()


def test_a_message_that_fails_stays_first_with_one_attempt_more() -> None:
    line = line_of([7, 8])
    pulled = line.message

    line.stay(1_000, 500, "ValueError: x")
    assert (7, 2, 1) == (line.message.queue_offset, line.message.attempt, line.attempt)
    assert (500, 1, 0) == (line.wait_ms(1_000), line.wait_ms(1_499), line.wait_ms(1_500))
    line.stay(2_000, 500, "ValueError: y")
    assert (3, 2) == (line.message.attempt, line.attempt)
    assert "blocked after 2 attempts: ValueError: y" == line.blocked_because

    again = line.message
    assert (pulled.body, pulled.message_id, pulled.queue) == (again.body, again.message_id, again.queue)
    assert (pulled.topic, dict(pulled.properties), pulled.flag) == (again.topic, dict(again.properties), again.flag)
    assert (pulled.born_ms, pulled.stored_ms) == (again.born_ms, again.stored_ms)
    assert pulled.commit_log_offset == again.commit_log_offset
    assert 1 == pulled.attempt, "what was pulled is as it was"


def test_tries_without_end_leave_no_chain() -> None:
    line = line_of([7])
    for _ in range(5_000):
        line.stay(0, 10, "ValueError: x")

    assert (5_001, "orders") == (line.message.attempt, line.message.topic)


def test_a_pause_that_is_no_attempt_counts_none() -> None:
    line = line_of([7])

    line.stay(0, 100, "codec missing", counts=False)
    assert (1, 0, 100) == (line.message.attempt, line.attempt, line.wait_ms(0))


def test_the_next_message_begins_anew() -> None:
    line = line_of([7, 8])
    setattr(line, "since_ms", 5)  # noqa: B010 - so that mypy does not remember it
    line.stay(0, 10_000, "ValueError: x")
    line.is_reported = True

    advance(line)
    assert (8, 1, 0) == (line.message.queue_offset, line.message.attempt, line.wait_ms(0))
    assert line.since_ms is None
    assert line.blocked_because is None
    assert not line.is_reported


def test_plain_success_goes_on_in_place() -> None:
    line = line_of([7, 8, 9])
    portion = line.first
    assert portion is not None

    following = line.went_well(portion, 40)
    assert following is not None
    assert (8, 40) == (following.queue_offset, line.since_ms)
    assert 8 == portion.window.settle()


def _left(line: Line, portion: Portion) -> None:
    portion.window.stop_handing_out()


def _taken_away(line: Line, portion: Portion) -> None:
    line.clear()


def _closed(line: Line, portion: Portion) -> None:
    portion.window.close()


def _failed_before(line: Line, portion: Portion) -> None:
    line.stay(0, 10, "ValueError: x")


def _held_before(line: Line, portion: Portion) -> None:
    line.stay(0, 10, "codec missing", counts=False)


def _reported(line: Line, portion: Portion) -> None:
    line.is_reported = True


def _by_hand(line: Line, portion: Portion) -> None:
    line.is_manual = True


def _one_is_gone(line: Line, portion: Portion) -> None:
    line.end_one(portion, 1)


def _its_last(line: Line, portion: Portion) -> None:
    advance(line, 2)


@pytest.mark.parametrize(
    "happened",
    [_left, _taken_away, _closed, _failed_before, _held_before, _reported, _by_hand, _one_is_gone, _its_last],
)
def test_where_there_is_more_to_look_at_nothing_ends_in_place(happened: Callable[[Line, Portion], None]) -> None:
    line = line_of([7, 8, 9])
    portion = line.first
    assert portion is not None
    happened(line, portion)
    before = portion.next, portion.ended, portion.chunk.low, line.since_ms

    assert line.went_well(portion, 40) is None
    assert before == (portion.next, portion.ended, portion.chunk.low, line.since_ms)


def test_nothing_of_a_queue_that_is_taken_away_is_left() -> None:
    line = line_of([0, 1], [2])
    line.stay(0, 10_000, "ValueError: x")
    portion = line.first
    assert portion is not None

    portion.window.stop_handing_out()
    assert line.first is None
    assert (0, None) == (line.wait_ms(0), line.blocked_because)
    with pytest.raises(AssertionError, match="nobody is in line"):
        assert line.message


def test_it_can_be_cleared() -> None:
    line = line_of([0, 1])
    line.clear()

    assert line.first is None


def test_it_is_stuck_when_its_first_message_has_stood_there_for_long() -> None:
    line = line_of([0])
    assert not line.is_stuck(10**9, 1_000)

    line.since_ms = 500
    assert (False, True) == (line.is_stuck(1_499, 1_000), line.is_stuck(1_500, 1_000))
    line.is_reported = True
    assert "its handler has not ended for long" == line.blocked_because


def test_its_repr_is_its_instrument_panel() -> None:
    assert ("<Line '' <Portion of <Chunk [0, 2) next=0 low=0 of 2>: next=0 of 2> attempt=0 1 portions>") == repr(
        line_of([0, 1])
    )


def test_a_rollback_over_several_pulls_brings_them_back_in_their_order() -> None:
    """Two pulls are handled to their end and the third is begun, and nothing of it is committed."""
    line, window = Line(is_manual=True), window_at()
    for offsets in ([0, 1], [2, 3], [4, 5]):
        chunk = admit(window, offsets)
        line.offer(Portion(chunk, chunk.messages))
    for _ in range(5):
        advance(line)
    portion = line.first
    assert portion is not None

    line.roll_back(portion)
    again = []
    while line.first is not None:
        again.append(line.message.queue_offset)
        advance(line)
    assert [0, 1, 2, 3, 4, 5] == again
