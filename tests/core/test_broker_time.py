"""What time it is at the brokers: bounds that hold whatever an answer took, and that one liar does not move."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.core.broker_time import BrokerTime, Reading

HOUR = 3_600_000
NOW = 1_700_000_000_000


def test_where_nobody_has_said_the_wall_clock_is_right() -> None:
    assert NOW == BrokerTime().corrected(NOW, 5)
    assert BrokerTime().bounds(5) is None


def test_a_wall_clock_within_the_bounds_stays_as_it_is() -> None:
    time = BrokerTime()
    assert time.answered("a", Reading(NOW, NOW + 999), 1_000, 1_020)
    assert (NOW - 1, NOW + 999 + 20 + 1) == time.bounds(1_020)
    assert NOW + 500 == time.corrected(NOW + 500, 1_020)


def test_one_that_is_an_hour_off_is_put_right_to_within_them() -> None:
    time = BrokerTime()
    time.answered("a", Reading(NOW, NOW), 1_000, 1_020)
    assert NOW + 21 == time.corrected(NOW + HOUR, 1_020)
    assert NOW - 1 == time.corrected(NOW - HOUR, 1_020)
    assert NOW + 60_000 - 21 <= time.corrected(NOW - HOUR, 61_020) <= NOW + 60_000


def test_answers_in_other_parts_of_a_second_bound_it_from_both_sides() -> None:
    time = BrokerTime()
    for at in range(0, 2_000, 130):  # the broker's clock is at NOW + at then, and tells whole seconds
        low = NOW + at // 1_000 * 1_000
        assert time.answered("a", Reading(low, low + 999), at, at + 1)
    bounds = time.bounds(2_000)
    assert bounds is not None
    assert bounds[0] <= NOW + 2_000 <= bounds[1]
    assert bounds[1] - bounds[0] < 300


def test_a_broker_whose_clock_was_set_is_believed_anew() -> None:
    time = BrokerTime()
    time.answered("a", Reading(NOW, NOW), 0, 10)
    assert not time.answered("a", Reading(NOW - HOUR, NOW - HOUR), 1_000, 1_010)
    bounds = time.bounds(1_010)
    assert bounds is not None
    assert bounds[1] < NOW


def test_of_three_brokers_one_that_is_wrong_moves_nothing() -> None:
    time = BrokerTime()
    for broker, off in (("a", 3), ("b", HOUR), ("c", 0)):
        time.answered(broker, Reading(NOW + off, NOW + off), 0, 0)
    assert (NOW + 2, NOW + 4) == time.bounds(0)
    time.forget("b")
    assert ("a", "c") == time.brokers


answer = st.tuples(st.integers(0, 600_000), st.integers(0, 3_000), st.integers(0, 3_000), st.booleans())


@given(st.lists(answer, min_size=1, max_size=20), st.integers(-HOUR, HOUR), st.integers(0, 300_000))
def test_the_broker_s_time_is_always_within_the_bounds(
    answers: list[tuple[int, int, int, bool]], ahead: int, later: int
) -> None:
    """Asked at any time, on ways of any length there and back, of brokers that tell milliseconds or seconds."""
    time, now = BrokerTime(), 0
    for at, there, back, is_exact in sorted(answers):
        asked = max(at, now)
        read = NOW + ahead + asked + there
        low = read if is_exact else read // 1_000 * 1_000
        now = asked + there + back
        assert time.answered("a", Reading(low, low if is_exact else low + 999), asked, now)
    now += later
    bounds = time.bounds(now)
    assert bounds is not None
    assert bounds[0] <= NOW + ahead + now <= bounds[1]
    assert bounds[0] <= time.corrected(NOW + HOUR, now) <= bounds[1]
