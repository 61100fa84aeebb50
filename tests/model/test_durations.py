"""Durations as people write them, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.model.durations import LONGEST_MS, to_ms, to_text


@pytest.mark.parametrize(
    ("expected_ms", "written"),
    [
        (0, 0),
        (0, "0s"),
        (1, "1ms"),
        (1, 0.001),
        (250, "250ms"),
        (1_000, 1),
        (1_500, 1.5),
        (1_500, "1.5s"),
        (30_000, "30s"),
        (90_000, "1m30s"),
        (90_000, "1.5m"),
        (90_000, "  90s "),
        (900_000, "15m"),
        (5_400_000, "1h30m"),
        (86_400_000, "1d"),
        (LONGEST_MS, "366d"),
    ],
)
def test_what_people_write_is_understood(expected_ms: int, written: str | float) -> None:
    assert expected_ms == to_ms(written)


@pytest.mark.parametrize(
    "written",
    ["", "s", "30", "30 s", "1m 30s", "30sec", "-1s", "1,5s", "1e3s", "s30", "30s!", "30s\n1", "1h-30m", "ten minutes"],
)
def test_a_text_that_is_no_duration_is_refused_with_the_forms_that_are(written: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; write 30s, 15m or 1h30m") as caught:
        to_ms(written)
    assert str(caught.value).startswith(repr(written))


@pytest.mark.parametrize(
    "written", [-1, -0.5, 1e12, float("inf"), float("nan"), "367d", "9999999999h", "9" * 400 + "s"]
)
def test_a_duration_out_of_bounds_is_refused(written: str | float) -> None:
    with pytest.raises(ValueError, match="is outside 0 to 366d"):
        to_ms(written)


@pytest.mark.parametrize(
    ("expected", "ms"),
    [
        ("0s", 0),
        ("1ms", 1),
        ("1s500ms", 1_500),
        ("1m30s", 90_000),
        ("2h", 7_200_000),
        ("1d1h1m1s1ms", 90_061_001),
    ],
)
def test_milliseconds_are_shown_as_people_write_them(expected: str, ms: int) -> None:
    assert expected == to_text(ms)


@settings(deadline=None)
@given(st.integers(0, LONGEST_MS))
def test_what_is_shown_reads_back(ms: int) -> None:
    assert ms == to_ms(to_text(ms))
