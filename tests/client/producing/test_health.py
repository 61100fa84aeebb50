"""Brokers that failed or were slow are left out for a while."""

from __future__ import annotations

import pytest

from framework.client.producing.health import BrokerHealth


@pytest.mark.parametrize(
    ("seconds", "left_out"), [(0.01, 0), (0.54, 0), (0.55, 2), (1.8, 5), (3.0, 6), (5.0, 10), (15.0, 30), (99.0, 30)]
)
def test_a_slow_broker_is_left_out_as_long_as_java_leaves_it_out(seconds: float, left_out: int) -> None:
    health = BrokerHealth()
    health.answered("a", seconds, now=100.0)

    assert bool(left_out) == health.is_avoided("a", 100.0)
    assert not left_out or health.is_avoided("a", 100.0 + left_out - 0.01)
    assert not health.is_avoided("a", 100.0 + left_out)


def test_a_failure_leaves_it_out_for_ten_seconds_unless_it_answers_before() -> None:
    health = BrokerHealth()
    health.failed("a", 100.0)
    assert health.is_avoided("a", 109.9)
    assert not health.is_avoided("a", 110.0)
    assert not health.is_avoided("b", 100.0)

    health.answered("a", 0.01, 101.0)
    assert not health.is_avoided("a", 101.0)
    assert not health.avoided, "while all is well a send pays nothing"


def test_a_failure_does_not_shorten_what_slowness_asked_for() -> None:
    health = BrokerHealth()
    health.answered("a", 20.0, 100.0)
    health.failed("a", 101.0)

    assert health.is_avoided("a", 129.9)
