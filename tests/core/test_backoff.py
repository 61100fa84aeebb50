"""Backoff: delays that double up to a bound, half of each certain."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.core.backoff import Backoff


def test_without_jitter_half_of_the_doubling_ceiling_is_waited() -> None:
    backoff = Backoff(1_000, 30_000)

    assert [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000] == [backoff.failed(0.0) for _ in range(7)]
    assert 7 == backoff.failures


@settings(deadline=None)
@given(st.floats(0.0, 1.0, exclude_max=True), st.integers(0, 60))
def test_a_delay_is_between_half_its_ceiling_and_the_ceiling(jitter: float, before: int) -> None:
    backoff = Backoff(1_000, 30_000)
    for _ in range(before):
        backoff.failed(0.0)

    ceiling = min(1_000 * 2**before, 30_000)
    assert ceiling // 2 <= backoff.failed(jitter) <= ceiling


def test_a_success_starts_over() -> None:
    backoff = Backoff(1_000, 30_000)
    for _ in range(5):
        backoff.failed(0.0)

    backoff.succeeded()
    assert 0 == backoff.failures
    assert 500 == backoff.failed(0.0)


def test_a_year_of_failures_costs_no_larger_numbers() -> None:
    backoff = Backoff(1, 1 << 40)
    for _ in range(10_000):
        last = backoff.failed(0.0)

    assert 1 << 19 == last


@pytest.mark.parametrize(("first_ms", "max_ms"), [(0, 10), (-1, 10), (20, 10)])
def test_bounds_that_cannot_be_are_a_bug(first_ms: int, max_ms: int) -> None:
    with pytest.raises(AssertionError):
        Backoff(first_ms, max_ms)
