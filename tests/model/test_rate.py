"""Rates as people write them."""

from __future__ import annotations

import pytest

from framework.model.rate import Rate, to_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100/s", Rate(100, 1_000)), (" 30 / m ", Rate(30, 60_000)), ("1/h", Rate(1, 3_600_000))],
)
def test_a_rate_is_a_count_in_a_second_a_minute_or_an_hour(text: str, rate: Rate) -> None:
    assert rate == to_rate(text) == to_rate(str(rate))


@pytest.mark.parametrize("text", ["100", "100/d", "-1/s", "1.5/s", "0/s", "/s", "", "9" * 50 + "/s"])
def test_what_is_none_is_said_with_the_way_out(text: str) -> None:
    with pytest.raises(ValueError, match=r"100/s|paused: true"):
        to_rate(text)
