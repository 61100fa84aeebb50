"""Bucket: no more than the rate in any stretch of time, and no less where there is enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.core.budget import PORTION_MS, Bucket
from framework.model.rate import Rate, to_rate


@pytest.mark.parametrize(("rate", "portion"), [("1/h", 1), ("10/s", 1), ("20/s", 1), ("100/s", 5), ("20000/s", 1_000)])
def test_what_goes_at_once_takes_a_twentieth_of_a_second_or_is_one(rate: str, portion: int) -> None:
    assert portion == Bucket(to_rate(rate), 0).portion


def test_a_batch_is_paid_for_before_the_next_one_goes() -> None:
    bucket = Bucket(to_rate("10/s"), 5_000)
    assert 5_000 == bucket.due_ms
    bucket.take(32, 5_000)
    assert 8_200 == bucket.due_ms


def test_a_quiet_hour_is_not_made_up_for() -> None:
    bucket = Bucket(to_rate("10/s"), 0)
    taken = 0
    while bucket.due_ms <= 3_600_000:
        bucket.take(1, 3_600_000)
        taken += 1
    assert 1 == taken


@given(
    st.integers(1, 5_000),
    st.sampled_from([1_000, 60_000]),
    st.lists(st.tuples(st.floats(0, 5_000), st.integers(1, 64)), max_size=60),
)
def test_no_stretch_of_time_has_more_than_its_rate_and_a_portion(
    count: int, per_ms: int, waits: list[tuple[float, int]]
) -> None:
    bucket = Bucket(Rate(count, per_ms), 0)
    now_ms, taken = 0.0, list[tuple[float, int]]()
    for pause, wanted in waits:
        now_ms = max(now_ms, bucket.due_ms) + pause
        bucket.take(wanted, now_ms)
        taken.append((now_ms, wanted))
    for first, (began, _) in enumerate(taken):
        total = 0
        for at, wanted in taken[first:]:
            assert total <= (at - began + PORTION_MS) * count / per_ms + 1e-6
            total += wanted
