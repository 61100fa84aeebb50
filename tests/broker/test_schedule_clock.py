"""The schedule's clock goes with the wall clock, but for the steps that somebody sets it by."""

from __future__ import annotations

from framework.broker.delays import STEP_MS, ScheduleClock
from tests.broker.store_lab import HandClock
from tests.simulation.left_out import left_out

HOUR_MS = 3_600_000


def test_steps_are_taken_out_and_told_of() -> None:
    clock = HandClock()
    told: list[int] = []
    schedule = ScheduleClock(clock, skew_ms=0, stepped=told.append)
    begin = clock.ms
    for skew_ms in (HOUR_MS, -HOUR_MS, 0):
        clock.skew_ms = skew_ms
        clock.ms += 1000
        assert schedule.now_ms() == clock.ms

    assert (told, clock.ms) == ([HOUR_MS, -HOUR_MS, 0], begin + 3000)


def test_a_clock_that_is_slewed_is_followed() -> None:
    clock = HandClock()
    told: list[int] = []
    schedule = ScheduleClock(clock, skew_ms=0, stepped=told.append)
    for _ in range(20):
        clock.skew_ms += STEP_MS
        assert schedule.now_ms() == clock.now_ms()

    assert told == []


def test_it_goes_on_with_what_was_taken_out_before() -> None:
    clock = HandClock()
    clock.skew_ms = HOUR_MS

    assert ScheduleClock(clock, skew_ms=HOUR_MS, stepped=lambda _: None).now_ms() == clock.ms


def test_without_the_safeguard_a_step_is_time() -> None:
    """So that the mutant is one."""
    clock = HandClock()
    schedule = ScheduleClock(clock, skew_ms=0, stepped=lambda _: None)
    clock.skew_ms = HOUR_MS

    with left_out("a step of the wall clock moves no delay"):
        assert schedule.now_ms() == clock.ms + HOUR_MS
