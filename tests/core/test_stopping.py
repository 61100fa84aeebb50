"""The sum of a stop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.core.limits import after_the_drain_ms, stop_ms


def test_by_default_a_stop_takes_56_s_at_most() -> None:
    assert 56_000 == stop_ms(30_000, 3_000)


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_longer_drain_and_a_slower_cluster_make_it_longer(drain_ms: int, timeout_ms: int, more_ms: int) -> None:
    assert stop_ms(drain_ms, timeout_ms) + more_ms == stop_ms(drain_ms + more_ms, timeout_ms)
    assert after_the_drain_ms(timeout_ms) + 3 * more_ms == after_the_drain_ms(timeout_ms + more_ms)
