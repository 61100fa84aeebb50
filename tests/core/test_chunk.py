"""Chunk: which messages of one pull have ended, and the lowest that has not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.core.chunk import Chunk
from tests.core.making import chunk_of, messages_at


@settings(deadline=None)
@given(st.lists(st.integers(0, 39), max_size=120), st.integers(1, 40))
def test_low_is_the_lowest_index_that_has_not_ended(order: list[int], count: int) -> None:
    chunk = chunk_of(range(500, 500 + count))
    ended: set[int] = set()

    for index in (each % count for each in order):
        assert (index not in ended) is chunk.finish(index)
        ended.add(index)

        lowest = min(set(range(count + 1)) - ended)
        assert lowest == chunk.low
        assert 500 + lowest == chunk.low_offset
        assert (len(ended) == count) is chunk.is_finished
        assert [each in ended for each in range(count)] == [chunk.has_ended(each) for each in range(count)]
        assert len([each for each in ended if each > lowest]) == chunk.ahead.bit_count()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted), max_size=12))
def test_a_span_ends_as_its_messages_would_one_by_one(spans: list[list[int]]) -> None:
    whole, one_by_one = chunk_of(range(40)), chunk_of(range(40))

    for begin, until in spans:
        whole.finish_span(begin, until)
        for index in range(begin, until):
            one_by_one.finish(index)
        assert (one_by_one.low, one_by_one.ahead) == (whole.low, whole.ahead)


def test_in_order_a_worker_may_store_low_itself() -> None:
    """The pool's common path: `low = index + 1` while nothing has ended ahead, without a call."""
    chunk = chunk_of(range(3))

    chunk.low = 1
    assert not chunk.finish(0)
    assert chunk.finish(1)
    assert 2 == chunk.low


def test_a_second_end_changes_nothing() -> None:
    chunk = chunk_of(range(4))

    assert chunk.finish(2)
    assert not chunk.finish(2)
    assert chunk.finish(0)
    assert not chunk.finish(0)
    assert 1 == chunk.low
    assert 0b100 == chunk.ahead


def test_the_low_offset_of_a_finished_chunk_is_its_end() -> None:
    """Messages that the broker filtered out behind the last one belong to the range."""
    chunk = Chunk(messages_at([10, 14]), 8, 20, 100)

    assert 10 == chunk.low_offset
    chunk.finish(0)
    assert 14 == chunk.low_offset
    chunk.finish(1)
    assert 20 == chunk.low_offset


def test_a_chunk_without_messages_is_finished() -> None:
    chunk = Chunk((), 8, 20, 0)

    assert chunk.is_finished
    assert 20 == chunk.low_offset
    assert 0 == chunk.running


def test_running_counts_what_was_started_and_has_not_ended() -> None:
    chunk = chunk_of(range(5))

    chunk.next = 4
    chunk.finish(0)
    chunk.finish(2)
    assert 2 == chunk.running


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_outside_is_a_bug(index: int) -> None:
    with pytest.raises(AssertionError):
        chunk_of(range(3)).finish(index)


def test_a_range_that_goes_backwards_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Chunk((), 20, 8, 0)


def test_its_repr_is_its_instrument_panel() -> None:
    chunk = chunk_of(range(7, 10))
    chunk.next = 2
    chunk.finish(0)

    assert "<Chunk [7, 10) next=2 low=1 of 3>" == repr(chunk)
