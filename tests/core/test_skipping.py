"""Skipping: what is too old or too far behind is cut off an answer, counted, and nothing else is."""

from __future__ import annotations

import pytest

from framework.core.skipping import Skipping, SkipRules
from framework.model.message import Message
from framework.model.pulled import Found

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def found(first: int, *ages_ms: int, next_offset: int | None = None, end: int = 1_000) -> Found:
    """Messages from an offset on, each so old."""
    messages = [Message("orders", queue_offset=first + at, stored_ms=NOW_MS - age) for at, age in enumerate(ages_ms)]
    return Found(messages, 100, first + len(ages_ms) if next_offset is None else next_offset, 0, end)


def cut(rules: SkipRules, answer: Found, begin: int = 100) -> tuple[list[int], int, int, str] | None:
    """What is left, the next offset, how many offsets were skipped, and why; None where nothing was."""
    skipping = Skipping(rules)
    result = skipping.cut(answer, begin, NOW_MS)
    if result is None:
        assert 0 == skipping.total
        return None
    assert skipping.total == result.count
    assert (answer.min_offset, answer.max_offset) == (result.found.min_offset, result.found.max_offset)
    return (
        [message.queue_offset for message in result.found.messages], result.found.next_offset, result.count,
        result.reason,
    )  # fmt: skip


OLD = SkipRules(older_than_ms=HOUR_MS)
WHY_OLD = "stored more than 1h ago"


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (None, found(100, HOUR_MS, 5, 0)),  # exactly an hour is not longer ago
        (([101, 102], 103, 1, WHY_OLD), found(100, HOUR_MS + 1, HOUR_MS, 0)),
        (([], 103, 3, WHY_OLD), found(100, HOUR_MS + 3, HOUR_MS + 2, HOUR_MS + 1)),
        (([], 150, 50, WHY_OLD), found(100, HOUR_MS + 3, next_offset=150)),
        (None, found(100)),  # nothing here: all of it was filtered out
        (([112], 113, 12, WHY_OLD), found(110, HOUR_MS + 3, HOUR_MS + 2, 7)),
    ],
)
def test_what_was_stored_too_long_ago_is_skipped(expected: object, answer: Found) -> None:
    assert expected == cut(OLD, answer)


WHY_FAR = "more than 50 behind the end"


@pytest.mark.parametrize(
    ("expected", "end"),
    [
        (None, 150),  # exactly as far as that is not further
        (([101, 102], 103, 1, WHY_FAR), 151),
        (([], 103, 3, WHY_FAR), 153),
        (([], 9_950, 9_850, WHY_FAR), 10_000),  # beyond this answer: what lies between need not be pulled
    ],
)
def test_what_is_too_far_behind_is_skipped(expected: object, end: int) -> None:
    assert expected == cut(SkipRules(backlog_over=50), found(100, 0, 0, 0, end=end))


def test_both_rules_together_skip_what_either_would() -> None:
    both = SkipRules(HOUR_MS, 50)
    ages = (HOUR_MS + 2, HOUR_MS + 1, 0)

    assert ([102], 103, 2, WHY_OLD) == cut(both, found(100, *ages, end=151))
    assert ([], 103, 3, WHY_FAR) == cut(both, found(100, *ages, end=153))
    assert cut(both, found(100, 0, 0, end=150)) is None


def test_one_answer_s_word_skips_a_million_offsets_and_no_more() -> None:
    """The next answer says again where the end is; a lie would cost everything."""
    left = cut(SkipRules(backlog_over=50), found(100, 0, end=1 << 50))
    assert left == ([], 1_000_100, 1_000_000, WHY_FAR)


def test_nothing_but_the_newest_is_left_by_a_backlog_of_none() -> None:
    assert ([], 1_000, 900, "more than 0 behind the end") == cut(SkipRules(backlog_over=0), found(100, 0))


def test_what_was_skipped_adds_up() -> None:
    skipping = Skipping(OLD)
    for begin in (0, 2):
        skipping.cut(found(begin, HOUR_MS + 2, HOUR_MS + 1), begin, NOW_MS)
    assert 4 == skipping.total
