"""How many ended messages of a queue come again, as its window counts them: all above what was confirmed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from framework.core import window as windows
from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.window import Window
from tests.core.making import messages_at

ROOM = Budget(1 << 30)


def window_of(*chunks: range) -> tuple[Window, list[Chunk]]:
    window, found = Window(0, ROOM), []
    for offsets in chunks:
        chunk = window.admit(messages_at(offsets), window.end, offsets.stop, 10)
        assert chunk is not None
        found.append(chunk)
    return window, found


def test_what_ended_counts_until_an_offset_above_it_is_confirmed() -> None:
    window, (first, second) = window_of(range(3), range(3, 5))
    for index in range(3):
        first.finish(index)
    second.finish(0)
    assert 4 == window.settle()

    assert 4 == window.unconfirmed()
    window.confirmed(3)
    window.settle()
    assert 4 == window.unconfirmed(), "nobody knows how many ended below 3: it was never told"
    window.confirmed(4)
    assert 0 == window.unconfirmed()


def test_offsets_without_messages_count_for_nothing() -> None:
    """What the broker filtered out is settled by an offset, and nobody would handle it again."""
    window = Window(0, ROOM)
    window.admit((), 0, 100, 0)

    assert (100, 0) == (window.settle(), window.unconfirmed())


def test_what_ended_above_a_gap_counts_unless_a_record_keeps_it() -> None:
    window, (first, second) = window_of(range(4), range(4, 6))
    for chunk, index in ((first, 0), (first, 2), (second, 0), (second, 1)):
        chunk.finish(index)
    window.confirmed(window.settle())
    window.release(second)

    assert (3, 0) == (window.unconfirmed(), window.unconfirmed(has_kept=True))


@given(
    ends=st.permutations(range(30)),
    sizes=st.lists(st.integers(1, 6), min_size=10, max_size=10),
    confirm_each=st.integers(1, 12),
)
def test_it_is_the_number_of_ended_messages_that_are_not_below_the_confirmed_offset(
    ends: list[int], sizes: list[int], confirm_each: int
) -> None:
    """Whatever ends when, whatever is let go of and folded behind gaps."""
    bounds = [0]
    while bounds[-1] < 30:
        bounds.append(min(30, bounds[-1] + sizes[len(bounds) % len(sizes)]))
    window, chunks = window_of(*(range(low, high) for low, high in itertools.pairwise(bounds)))
    where = {message.queue_offset: (chunk, at) for chunk in chunks for at, message in enumerate(chunk.messages)}
    confirmed, ended = 0, set[int]()
    for number, offset in enumerate(ends):
        chunk, at = where[offset]
        chunk.finish(at)
        ended.add(offset)
        committable = window.settle()
        window.release(chunk)
        window.fold()
        if number % confirm_each == 0:
            confirmed = committable
            window.confirmed(committable)
        assert window.unconfirmed() == sum(each >= confirmed for each in ended)
        assert window.unconfirmed(has_kept=True) == sum(confirmed <= each < committable for each in ended)


def test_however_long_nothing_is_confirmed_the_marks_stay_few() -> None:
    window = Window(0, ROOM)
    for offset in range(windows.MARKS_MAX + 50):
        chunk = window.admit(messages_at([offset]), offset, offset + 1, 1)
        assert chunk is not None
        chunk.finish(0)
        window.settle()

    assert windows.MARKS_MAX == len(window._marks)
    window.confirmed(10)
    assert windows.MARKS_MAX + 50 - 10 == window.unconfirmed()
    window.confirmed(windows.MARKS_MAX + 50)
    assert 0 == window.unconfirmed()
