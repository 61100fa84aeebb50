"""Flow control: which bound stops a queue's pulls, and in which order they are named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from framework.core.window import FlowLimits, reason_to_wait
from tests.core.making import admit, window_at

BOUNDS = FlowLimits(messages_max=4, bytes_max=1_000, span_max=50)


@pytest.mark.parametrize(
    ("expected", "offsets", "size", "has_budget"),
    [
        (None, [0, 1, 2, 3], 1_000, True),
        ("count", [0, 1, 2, 3, 4], 10, True),
        ("bytes", [0, 1], 1_001, True),
        (None, [0, 50], 10, True),
        ("span", [0, 51], 10, True),
        ("budget", [0], 10, False),
        ("count", list(range(60)), 5_000, False),
        ("bytes", [0, 70], 5_000, False),
        ("span", [0, 70], 10, False),
    ],
)
def test_the_first_bound_that_is_passed_names_the_reason(
    expected: str | None, offsets: list[int], size: int, *, has_budget: bool
) -> None:
    window = window_at()
    admit(window, offsets, size=size)

    assert expected == reason_to_wait(window, BOUNDS, has_budget)


def test_an_empty_window_waits_for_the_budget_only() -> None:
    assert reason_to_wait(window_at(), BOUNDS, has_budget=True) is None
    assert "budget" == reason_to_wait(window_at(), BOUNDS, has_budget=False)


def test_a_finished_chunk_behind_a_gap_counts_by_its_range_alone() -> None:
    """One stuck handler must not stop its queue by count or bytes, or nothing behind it would ever be handled."""
    window = window_at()
    admit(window, [0], size=10)
    behind = admit(window, [1, 2, 3, 4, 5], size=5_000)
    assert "count" == reason_to_wait(window, BOUNDS, has_budget=True)

    for index in range(5):
        behind.finish(index)
    window.release(behind)
    assert reason_to_wait(window, BOUNDS, has_budget=True) is None

    admit(window, [60], size=10)
    assert "span" == reason_to_wait(window, BOUNDS, has_budget=True)


def test_popped_messages_are_counted_by_those_that_have_not_ended_and_know_no_span() -> None:
    """Offsets are a mere count there: one that is stuck holds up no other, neither of its own pop nor behind it."""
    window = window_at()
    window.is_popped = True
    first = admit(window, [0, 1, 2, 3], size=10)
    assert "count" == reason_to_wait(window, BOUNDS, has_budget=True)

    for index in (1, 2):
        first.finish(index)
    assert "count" != reason_to_wait(window, FlowLimits(messages_max=3), has_budget=True)
    assert "count" == reason_to_wait(window, FlowLimits(messages_max=2), has_budget=True), "a pop would be too many"

    admit(window, [60], size=10)
    assert reason_to_wait(window, BOUNDS, has_budget=True) is None


def test_a_span_without_messages_holds_nobody() -> None:
    """Everything was filtered out: there is no end to wait for, so waiting would be for ever."""
    window = window_at()
    window.admit((), 0, 5_000, 0)

    assert reason_to_wait(window, BOUNDS, has_budget=True) is None


@pytest.mark.parametrize(
    ("expected", "offsets", "size"),
    [
        (None, range(1_000), 100),
        ("count", range(1_001), 100),
        (None, [0], 16_777_216),
        ("bytes", [0], 16_777_217),
        (None, [0, 2_000], 100),
        ("span", [0, 2_001], 100),
    ],
)
def test_the_defaults_hold_at_their_very_edges(expected: str | None, offsets: Sequence[int], size: int) -> None:
    """1,000 messages, 16 MiB and a span of 2,000 go on; one more of each holds."""
    window = window_at()
    admit(window, list(offsets), size=size)

    assert expected == reason_to_wait(window, FlowLimits(), has_budget=True)


@pytest.mark.parametrize(
    ("queues", "messages", "size"),
    [(1, 1_000, 3_000), (2, 600, 1_500), (5, 240, 600), (5_000, 1, 1), (0, 1_000, 3_000)],
)
def test_a_topics_bounds_are_divided_among_its_owned_queues(queues: int, messages: int, size: int) -> None:
    share = FlowLimits(1_000, 10_000, topic_messages_max=1_200, topic_bytes_max=3_000).of_one(queues)

    assert (messages, size) == (share.messages_max, share.bytes_max)
    assert FlowLimits() == FlowLimits().of_one(queues), "without bounds of the topic, a queue's own stand"


def test_the_defaults_are_those_of_the_limits_file() -> None:
    assert FlowLimits(1_000, 16 * 1024 * 1024, 2_000) == FlowLimits()
