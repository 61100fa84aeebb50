"""Rates: sums over the last minute and hour, fed once a pull and once a chunk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.core.statistics import HOUR_STEP_MS, MINUTE_STEP_MS, STEPS, Rates
from framework.model.snapshot import Pace

MINUTE, HOUR = 60_000, 3_600_000
BEGIN = 1_000_000_000


def test_nothing_happened_is_all_zeros() -> None:
    assert Pace() == Rates(BEGIN).pace(BEGIN + HOUR)


def test_a_pull_counts_its_messages_and_its_time() -> None:
    rates = Rates(BEGIN)
    rates.pulled(BEGIN + 1_000, 32, 4.0)
    rates.pulled(BEGIN + 2_000, 8, 8.0)

    pace = rates.pace(BEGIN + 10_000)
    assert (6.0, 4.0) == (pace.pull_ms, pace.pulled_a_second)


def test_a_chunks_time_is_shared_by_its_messages_failures_included() -> None:
    rates = Rates(BEGIN)
    rates.failed(BEGIN + 500)
    rates.handled(BEGIN + 1_000, 3, 100.0)

    pace = rates.pace(BEGIN + 4_000)
    assert 25.0 == pace.handle_ms
    assert (0.75, 0.25, 1) == (pace.handled_a_second, pace.failed_a_second, pace.failed_in_an_hour)


def test_what_is_older_than_a_minute_counts_no_more_and_an_hours_failures_do() -> None:
    rates = Rates(BEGIN)
    rates.handled(BEGIN, 60, 600.0)
    rates.failed(BEGIN)

    soon, later, tomorrow = (rates.pace(BEGIN + after) for after in (MINUTE, 3 * MINUTE, 30 * HOUR))
    assert 0 < soon.handled_a_second <= 1
    assert (0.0, 0.0, 1) == (later.handled_a_second, later.failed_a_second, later.failed_in_an_hour)
    assert 0 == tomorrow.failed_in_an_hour


def test_a_quiet_topic_shows_how_long_its_messages_took_lately() -> None:
    rates = Rates(BEGIN)
    rates.handled(BEGIN, 10, 50.0)

    assert 5.0 == rates.pace(BEGIN + 5 * MINUTE).handle_ms
    assert 0.0 == rates.pace(BEGIN + 2 * HOUR).handle_ms


def test_the_first_second_promises_no_more_than_it_saw() -> None:
    rates = Rates(BEGIN)
    rates.handled(BEGIN + 1, 5, 1.0)

    assert 5.0 == rates.pace(BEGIN + 2).handled_a_second


@pytest.mark.parametrize("seconds", [30, 60, 61, 69, 300, 4_000])
def test_a_steady_stream_shows_its_rate(seconds: int) -> None:
    rates = Rates(BEGIN)
    for second in range(seconds):
        rates.handled(BEGIN + second * 1_000, 10, 20.0)

    pace = rates.pace(BEGIN + seconds * 1_000)
    assert 10.0 == pytest.approx(pace.handled_a_second, rel=0.02)
    assert 2.0 == pytest.approx(pace.handle_ms)


@given(st.lists(st.integers(min_value=0, max_value=2 * HOUR), max_size=60))
def test_failures_of_an_hour_are_those_of_its_steps(times: list[int]) -> None:
    """The law against a plain list: the present step of 10 minutes and the six before it."""
    rates = Rates(BEGIN)
    for time in sorted(times):
        rates.failed(BEGIN + time)
    now = BEGIN + 2 * HOUR

    steps = range(now // HOUR_STEP_MS - STEPS, now // HOUR_STEP_MS + 1)
    expected = sum((BEGIN + time) // HOUR_STEP_MS in steps for time in times)
    assert expected == rates.pace(now).failed_in_an_hour


def test_time_does_not_make_it_grow() -> None:
    rates = Rates(BEGIN)
    for step in range(1_000):
        rates.failed(BEGIN + step * MINUTE_STEP_MS)

    assert len(rates._minute) <= STEPS
    assert len(rates._hour) <= STEPS + 1
