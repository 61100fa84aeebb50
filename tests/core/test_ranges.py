"""Ranges above a gap: read from any window they cover exactly what has ended, and survive their record."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.core import limits
from framework.core.chunk import Chunk
from framework.core.ranges import (
    Finished,
    Mark,
    Passing,
    ProgressRecord,
    Range,
    decode,
    finished_above,
    joined,
    why_not,
    within_limit,
)
from framework.errors import StoreError
from framework.model.message import Message
from framework.model.pulled import Found
from framework.model.queue import MessageQueue
from tests.core.making import QUEUE, admit, finish, messages_at, window_at

LOW, LAST = Mark(2101, 5_000, 70_000), Mark(2200, 6_000, 90_000)
ARTICLE = Finished(LOW, ((2102, 2201),), LAST)


def offsets_of(ranges: tuple[Range, ...]) -> set[int]:
    return {offset for begin, end in ranges for offset in range(begin, end)}


def test_the_article_s_case() -> None:
    """2101 is stuck, 2102 to 2200 have ended."""
    window = window_at(2101)
    chunks = [admit(window, range(at, min(at + 32, 2201))) for at in range(2101, 2201, 32)]
    for chunk in chunks:
        finish(chunk, *range(1 if chunk is chunks[0] else 0, chunk.count))
        window.release(chunk)
    assert 2101 == window.settle()
    found = finished_above(window)
    assert found is not None
    assert ((2102, 2201),) == found.ranges
    assert (2101, 2200) == (found.low.offset, found.last.offset)


def test_without_a_gap_there_is_nothing() -> None:
    window = window_at(10)
    assert finished_above(window) is None
    chunk = admit(window, range(10, 20))
    finish(chunk, 0, 1, 2)
    window.settle()
    assert finished_above(window) is None


@given(st.data())
def test_ranges_cover_what_has_ended_and_nothing_else(data: st.DataObject) -> None:
    """Whatever the order of ends, filtered offsets, released and folded chunks."""
    window = window_at(100)
    chunks: list[Chunk] = []
    messages: set[int] = set()
    for _ in range(data.draw(st.integers(1, 6))):
        offset, offsets = window.end - 1, []
        for step in data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6)):
            offset += step
            offsets.append(offset)
        chunk = window.admit(messages_at(offsets), window.end, offset + 1 + data.draw(st.integers(0, 2)), 10)
        assert chunk is not None
        chunks.append(chunk)
        messages |= set(offsets)
    ended: set[int] = set()
    for chunk in data.draw(st.permutations(chunks)):
        for index in data.draw(st.lists(st.integers(0, chunk.count - 1), unique=True)):
            ended.add(chunk.messages[index].queue_offset)
            chunk.finish(index)
        window.settle()
        window.release(chunk)
        if data.draw(st.booleans()):
            window.fold()
    window.settle()

    found = finished_above(window)
    waiting = messages - ended
    covered = set() if found is None else offsets_of(found.ranges)
    assert not covered & waiting
    if not waiting:
        assert found is None
        return
    assert {offset for offset in ended if offset > min(waiting)} == covered & messages
    if found is not None:
        assert min(waiting) == found.low.offset == window.committable
        assert max(ended) == found.last.offset == max(covered)
        assert found == decode(ProgressRecord(QUEUE, 7, found).encode(), QUEUE).finished


def test_what_was_inherited_stays_until_it_is_passed() -> None:
    window = window_at(2101)
    chunk = admit(window, [2101, 2201, 2202])  # what lies between was passed over
    finish(chunk, 1)
    window.settle()
    found = finished_above(window, ARTICLE)
    assert found is not None
    assert ((2102, 2202),) == found.ranges
    assert 2201 == found.last.offset
    finish(chunk, 0)
    window.settle()
    assert finished_above(window, ARTICLE) is None


def test_what_a_broker_filtered_out_behind_the_last_message_is_not_covered() -> None:
    """Nobody could tell it from something new that lies there one day."""
    window = window_at(10)
    chunk = window.admit(messages_at([10, 11]), 10, 40, 10)
    assert chunk is not None
    finish(chunk, 1)
    window.settle()
    found = finished_above(window)
    assert found is not None
    assert ((11, 12),) == found.ranges


def test_folded_neighbours_keep_their_range_and_their_last_message() -> None:
    window = window_at(0)
    chunks = [admit(window, range(at, at + 4)) for at in range(0, 4_000, 4)]
    for chunk in chunks[1:]:
        finish(chunk, 0, 1, 2, 3)
        window.release(chunk)
    before = finished_above(window)
    window.fold()
    assert 2 == len(window.chunks)
    assert before == finished_above(window)
    finish(chunks[0], 0, 1, 2, 3)
    assert 4_000 == window.settle()


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))), st.integers(0, 60), st.integers(0, 60))
def test_joined_ranges_are_apart_and_in_order(ranges: list[Range], begin: int, end: int) -> None:
    found = joined(ranges, begin, end)
    assert offsets_of(found) == offsets_of(tuple(ranges)) & set(range(begin, end))
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("stored", "at_low", "at_last", "reason"),
    [
        (2101, LOW, LAST, None),
        (2150, LOW, LAST, None),
        (2100, LOW, LAST, "below"),
        (None, LOW, LAST, "no stored offset"),
        (2101, None, LAST, "another message is at 2101"),
        (2101, LOW._replace(stored_ms=1), LAST, "another message is at 2101"),
        (2101, LOW._replace(log_offset=1), LAST, "another message is at 2101"),
        (2101, LOW, None, "another message is at 2200"),
        (2101, LOW, LAST._replace(log_offset=1), "another message is at 2200"),
    ],
)
def test_ranges_are_skipped_only_where_they_are_still_true(
    stored: int | None, at_low: Mark | None, at_last: Mark | None, reason: str | None
) -> None:
    found = why_not(ARTICLE, stored, at_low, at_last)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_a_record_that_would_be_too_long_is_folded() -> None:
    many = Finished(Mark(0, 0, 0), tuple((at, at + 1) for at in range(2, 20_000, 2)), Mark(19_998, 0, 0))
    record, content = within_limit(ProgressRecord(QUEUE, 3, many))
    assert record.finished is None
    assert len(content) < limits.RECORD_BYTES_MAX
    assert ProgressRecord(QUEUE, 3) == decode(content, QUEUE)
    whole, content = within_limit(ProgressRecord(QUEUE, 3, ARTICLE))
    assert whole == decode(content, QUEUE)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"nonsense", b"[" * 5_000, b"x" * 9_000,
        ProgressRecord(MessageQueue("orders", "broker-a", 4)).encode(),
        ProgressRecord(QUEUE, 1, ARTICLE).encode().replace(b'"runs":[1,', b'"runs":[-1,'),
        ProgressRecord(QUEUE, 1, ARTICLE).encode().replace(b'"runs":[1,99]', b'"runs":[]'),
        ProgressRecord(QUEUE, 1, ARTICLE).encode().replace(b'"runs":[1,99]', b'"runs":[1,98]'),
        ProgressRecord(QUEUE, 1, ARTICLE).encode().replace(b'"low":[2101,', b'"low":["x",'),
    ],
)  # fmt: skip
def test_a_damaged_record_is_refused(content: bytes) -> None:
    with pytest.raises(StoreError):
        decode(content, QUEUE)


def test_a_pull_s_answer_is_cut() -> None:
    passing = Passing(((2102, 2151), (2160, 2201)))
    found = Found(messages_at([2101, 2102, 2150, 2151, 2159, 2160, 2200, 2201]), 800, 2202, 0, 9_000)
    left = passing.cut(found)
    assert [2101, 2151, 2159, 2201] == [message.queue_offset for message in left.messages]
    assert (2202, 4, 2201) == (left.next_offset, len(found.messages) - len(left.messages), passing.end)
    other = Found([Message("orders", b"x", queue=QUEUE, queue_offset=2151)], 1, 2152, 0, 9_000)
    assert passing.cut(other) is other
