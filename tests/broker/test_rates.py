"""Counts of the last minute, hour and day, by hand-turned time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.broker.rates import Sum, Throughput


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 9)), max_size=30), st.integers(0, 200))
def test_what_is_summed_is_what_was_counted_since(parts: list[tuple[int, int]], later: int) -> None:
    rate, now = Throughput(), 0
    at: list[tuple[int, int]] = []
    for pause, count in parts:
        now += pause
        rate.add(count, count * 100, 1, float(now))
        at.append((now, count))
    now += later
    tick, minute = now // 10, now // 60

    in_minute = [count for second, count in at if second // 10 >= tick - 6]
    assert Sum(sum(in_minute), sum(in_minute) * 100, len(in_minute)) == rate.last_minute(now)
    for minutes in (0, 1, 9, 59):
        in_minutes = [count for second, count in at if second // 60 >= minute - minutes]
        assert Sum(sum(in_minutes), sum(in_minutes) * 100, len(in_minutes)) == rate.last_minutes(minutes, now)
    assert 0 <= rate.per_second(now) <= sum(in_minute) / 60
    assert (sum(count for _, count in at), sum(count for _, count in at) * 100) == (rate.all, rate.all_bytes)
