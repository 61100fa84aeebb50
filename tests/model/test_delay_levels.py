"""The ladder of delays, and how wishes are mapped onto it: never early."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.model.delay_levels import DELAYS_MS, FIRST_RETRY_LEVEL, LEVEL_MAX, level_for
from framework.model.durations import to_ms

# As a stock broker's messageDelayLevel says it.
LADDER = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def test_the_ladder_is_that_of_a_stock_broker() -> None:
    assert tuple(to_ms(each) for each in LADDER.split()) == DELAYS_MS
    assert 18 == LEVEL_MAX
    assert 10_000 == DELAYS_MS[FIRST_RETRY_LEVEL - 1]


@pytest.mark.parametrize(
    ("expected", "wish"),
    [(1, "0s"), (1, "1ms"), (1, "1s"), (2, "1001ms"), (3, "10s"), (4, "11s"), (6, "90s"), (17, "1h"), (18, "61m"),
     (18, "2h"), (18, "3h"), (18, "366d")],
)  # fmt: skip
def test_a_wish_takes_the_shortest_level_that_is_not_shorter(expected: int, wish: str) -> None:
    assert expected == level_for(to_ms(wish))


@settings(deadline=None)
@given(st.integers(0, DELAYS_MS[-1]))
def test_no_message_comes_back_early_nor_later_than_it_must(wish_ms: int) -> None:
    level = level_for(wish_ms)

    assert wish_ms <= DELAYS_MS[level - 1]
    assert level == 1 or DELAYS_MS[level - 2] < wish_ms


@settings(deadline=None)
@given(st.integers(DELAYS_MS[-1], 1 << 60))
def test_above_the_ladder_its_last_level_is_taken(wish_ms: int) -> None:
    assert LEVEL_MAX == level_for(wish_ms)
