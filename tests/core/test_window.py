"""Window: the committable offset of one owned queue, against a model that is a set of offsets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.window import Window
from tests.core.making import PLENTY, THE_RUN, admit, finish, messages_at, window_at
from tests.simulation.left_out import left_out

BEGIN = 100


class WindowModel(RuleBasedStateMachine):
    """Every order of admitting, ending, settling, releasing, taking away and closing."""

    chunks = Bundle("chunks")

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(PLENTY)
        self.window = Window(BEGIN, self.budget, run=THE_RUN)
        self.end = BEGIN
        self.waiting: set[int] = set()
        """Offsets admitted that have not ended."""
        self.committed = BEGIN
        self.sizes: dict[Chunk, int] = {}
        """Chunks whose bytes are still counted."""
        self.is_closed = False

    @rule(
        target=chunks,
        again=st.integers(0, 6),
        steps=st.lists(st.integers(1, 3), max_size=6),
        filtered=st.integers(0, 3),
        size=st.integers(0, 1_000),
    )
    def pull(self, again: int, steps: list[int], filtered: int, size: int) -> object:
        """A pull's answer; `again` makes its range begin before what was admitted already, as after a lost answer."""
        begin = max(BEGIN, self.end - again)
        offset, offsets = begin - 1, []
        for step in steps:
            offset += step
            offsets.append(offset)
        end = offset + 1 + filtered
        fresh = [each for each in offsets if each >= self.end]
        chunk = self.window.admit(messages_at(offsets), begin, end, size)
        if self.is_closed or end <= self.end:
            assert chunk is None
            return multiple()
        assert chunk is not None
        assert fresh == [message.queue_offset for message in chunk.messages]
        assert (self.end, end) == (chunk.begin, chunk.end)
        assert THE_RUN == chunk.run
        self.end = end
        self.waiting |= set(fresh)
        if fresh:
            self.sizes[chunk] = size
        else:
            self.settle()
        return chunk if fresh else multiple()

    @rule(chunk=chunks, which=st.integers(0, 5))
    def end_one(self, chunk: Chunk, which: int) -> None:
        if chunk.count:
            index = which % chunk.count
            offset = chunk.messages[index].queue_offset
            assert (offset in self.waiting) is chunk.finish(index)
            self.waiting.discard(offset)

    @rule()
    def settle(self) -> None:
        committable = self.window.settle()
        if self.is_closed:
            assert self.committed == committable
            return
        assert min(self.waiting, default=self.end) == committable, "the lowest that has not ended, or the end"
        assert self.committed <= committable, "only forward"
        self.committed = committable
        for chunk in [each for each in self.sizes if each.end <= committable]:
            del self.sizes[chunk]

    @rule(chunk=chunks)
    def release(self, chunk: Chunk) -> None:
        self.window.release(chunk)
        if chunk.is_finished and not self.is_closed:
            self.sizes.pop(chunk, None)

    @rule(target=chunks, chunk=chunks, which=st.integers(0, 5))
    def cut(self, chunk: Chunk, which: int) -> object:
        """Nothing from there on was started, so nothing of it has ended."""
        at = max(chunk.low, chunk.ahead.bit_length()) + which
        if chunk not in self.sizes or at >= chunk.count or self.is_closed:
            return multiple()
        offsets = [message.queue_offset for message in chunk.messages]
        begin, end = chunk.begin, chunk.end
        rest = self.window.cut(chunk, at)
        assert offsets == [message.queue_offset for message in (*chunk.messages, *rest.messages)]
        assert (begin, rest.begin, end) == (chunk.begin, chunk.end, rest.end)
        assert THE_RUN == rest.run
        self.sizes[chunk], self.sizes[rest] = chunk.size, rest.size
        return rest

    @rule(chunk=consumes(chunks))
    def end_all(self, chunk: Chunk) -> None:
        for index in range(chunk.count):
            self.end_one(chunk, index)
        self.release(chunk)

    @rule()
    def stop_handing_out(self) -> None:
        self.window.stop_handing_out()
        assert all(chunk.next >= chunk.count for chunk in self.window.chunks)

    @rule()
    def close(self) -> None:
        self.window.close()
        self.is_closed = True
        self.sizes.clear()

    @invariant()
    def bytes_are_counted_once_and_given_back_once(self) -> None:
        assert sum(self.sizes.values()) == self.budget.used
        assert self.budget.used == self.window.bytes
        assert sum(chunk.count for chunk in self.sizes) == self.window.messages

    def teardown(self) -> None:
        self.window.close()
        assert 0 == self.budget.used


TestWindowModel = WindowModel.TestCase
TestWindowModel.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)


@pytest.fixture
def no_gaps_respected() -> Iterator[None]:
    with left_out("commits stop at the first gap"):
        yield


@pytest.mark.usefixtures("no_gaps_respected")
def test_without_its_safeguard_a_commit_passes_a_gap() -> None:
    """The mutant that a simulation must notice: it loses message 0."""
    window = window_at()
    admit(window, range(3))
    finish(admit(window, range(3, 6)), 0, 1)

    assert 5 == window.settle()


def test_what_nobody_has_started_is_taken_back_and_the_rest_ends_as_ever() -> None:
    window = window_at()
    begun, whole, over = admit(window, range(4)), admit(window, range(4, 7)), admit(window, range(7, 8))
    begun.next, over.next = 2, 1
    until = begun.count

    rest, others = window.take_back()

    assert [[2, 3], [4, 5, 6]] == [[each.queue_offset for each in chunk.messages] for chunk in (rest, others)]
    assert (2, 0, 1) == (begun.count, whole.count, over.count)
    assert begun.next >= until, "a worker that is inside compares it with the count that it remembers, and leaves"
    assert (0, 0) == (rest.next, others.next)
    assert window.has_unstarted
    finish(begun, 0, 1)
    assert 2 == window.settle()
    finish(over, 0)
    finish(rest, 0, 1)
    assert 4 == window.settle()
    finish(others, 0, 1, 2)
    assert 8 == window.settle()


def test_popped_messages_have_no_offsets_in_a_row_and_are_cut_by_their_count() -> None:
    window = window_at(10)
    chunk = window.admit(messages_at([907, 12, 455]), 10, 13, 90)
    assert chunk is not None

    rest = window.cut(chunk, 1)

    assert (10, 11, 13) == (chunk.begin, rest.begin, rest.end)
    finish(chunk, 0)
    assert 11 == window.settle()


def test_offset_stays_at_the_lowest_unsettled_message() -> None:
    """A slow first message holds the committed offset back, whatever finishes after it."""
    window = window_at()
    chunk = admit(window, range(5))

    finish(chunk, 1, 2, 3, 4)
    assert 0 == window.settle()

    finish(chunk, 0)
    assert 5 == window.settle()


def test_what_is_committed_is_the_next_offset_to_handle() -> None:
    """2101 to 2200 done: 2201 is stored."""
    window = window_at(2_101)
    chunk = admit(window, range(2_101, 2_201))

    finish(chunk, *range(100))
    assert 2_201 == window.settle()


def test_filtered_messages_never_hold_the_offset() -> None:
    window = window_at(10)
    chunk = window.admit(messages_at([12, 15]), 10, 30, 100)
    assert chunk is not None
    assert 12 == window.settle(), "10 and 11 were filtered out before the first message"

    finish(chunk, 0)
    assert 15 == window.settle()
    finish(chunk, 1)
    assert 30 == window.settle()


def test_an_empty_answer_moves_the_offset_at_once() -> None:
    window = window_at(10)

    assert window.admit((), 10, 500, 9_999) is not None
    assert 500 == window.committable
    assert window.is_empty
    assert 0 == window.bytes


def test_an_empty_answer_behind_a_gap_waits_for_it() -> None:
    window = window_at(10)
    stuck = admit(window, [10])
    window.admit((), 11, 500, 0)
    assert 10 == window.settle()

    finish(stuck, 0)
    assert 500 == window.settle()


def test_one_stuck_handler_pins_one_chunk_only() -> None:
    budget = Budget(PLENTY)
    window = window_at(0, budget)
    admit(window, range(4), size=7)
    behind = admit(window, range(4, 8), size=1_000)

    finish(behind, 3, 2, 1, 0)
    window.release(behind)

    assert 7 == budget.used
    assert 4 == window.messages
    assert () == behind.messages
    assert (4, 8) == (behind.begin, behind.end)
    assert 8 == window.span
    assert 0 == window.settle()


def test_nobody_can_start_a_released_chunk_again() -> None:
    """A worker that is inside the chunk while it is released still compares `next` with the count it remembers."""
    window = window_at()
    admit(window, range(2))
    behind = admit(window, range(2, 5))
    behind.next = remembered = behind.count
    finish(behind, 0, 1, 2)

    window.release(behind)
    assert behind.next >= remembered
    window.stop_handing_out()
    assert behind.next >= remembered
    assert 0 == behind.running


def test_an_unfinished_chunk_is_not_released() -> None:
    window = window_at()
    chunk = admit(window, range(2))
    finish(chunk, 1)

    window.release(chunk)
    assert 2 == len(chunk.messages)
    assert 100 == window.bytes


def test_a_range_admitted_before_is_refused_whole() -> None:
    window = window_at()
    admit(window, range(10))

    assert window.admit(messages_at(range(10)), 0, 10, 100) is None
    assert window.admit(messages_at([4, 5]), 4, 6, 100) is None
    assert 10 == window.messages


def test_a_range_admitted_in_part_is_trimmed() -> None:
    window = window_at()
    admit(window, range(10))

    chunk = window.admit(messages_at(range(6, 14)), 6, 14, 100)
    assert chunk is not None
    assert [10, 11, 12, 13] == [message.queue_offset for message in chunk.messages]
    assert (10, 14) == (chunk.begin, chunk.end)


def test_taking_away_starts_nothing_more_and_lets_the_running_end() -> None:
    window = window_at()
    chunk = admit(window, range(5))
    chunk.next = 2

    window.stop_handing_out()
    assert chunk.next == chunk.count
    finish(chunk, 0, 1)
    assert 2 == window.settle(), "the next owner begins at what nobody started"


def test_a_chunk_that_comes_while_draining_is_not_started() -> None:
    window = window_at()
    window.stop_handing_out()

    late = admit(window, range(3))
    assert late.next == late.count
    assert 0 == window.settle()


def test_what_ends_after_closing_changes_nothing() -> None:
    budget = Budget(PLENTY)
    window = window_at(0, budget)
    chunk = admit(window, range(3))
    other = admit(window, range(3, 6))
    window.close()
    window.close()
    assert 0 == budget.used

    finish(chunk, 0, 1, 2)
    finish(other, 0, 1, 2)
    window.release(other)
    assert 0 == window.settle()
    assert 0 == budget.used
    assert 0 == window.messages == window.bytes
    assert window.admit(messages_at([6]), 6, 7, 10) is None


def test_its_repr_is_its_instrument_panel() -> None:
    window = window_at(5)
    admit(window, range(5, 8))

    assert "<Window [5, 8) 1 chunks, 3 messages, 100 bytes>" == repr(window)
