"""Durations and sizes in settings."""

from __future__ import annotations

import pytest

from framework.settings.units import duration_ms, size_bytes, size_text


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("1h30m", 5_400_000), (" 2s ", 2_000), ("0s", 0)],
)
def test_durations_have_a_unit(text: str, ms: int) -> None:
    assert ms == duration_ms(text)


@pytest.mark.parametrize(
    "value", ["30", "", "s", "3 s", "-1s", "1y", "1e3s", "9" * 50 + "s", "400d", None, True, -1, 1.5]
)
def test_other_durations_are_refused(value: object) -> None:
    with pytest.raises(ValueError):
        duration_ms(value)


def test_a_bare_number_is_asked_for_its_unit() -> None:
    """Half of the world's settings take it for seconds, the other half for milliseconds."""
    with pytest.raises(ValueError, match="30 of what"):
        duration_ms("30")


@pytest.mark.parametrize(
    ("text", "count"), [("0B", 0), ("512B", 512), ("1KiB", 1024), ("64MiB", 64 << 20), ("1.5 GiB", 3 << 29)]
)
def test_sizes_have_a_unit(text: str, count: int) -> None:
    assert count == size_bytes(text)


@pytest.mark.parametrize("value", ["64", "64MB", "MiB", "-1B", "1" * 50 + "B", None, False, -1])
def test_other_sizes_are_refused(value: object) -> None:
    with pytest.raises(ValueError):
        size_bytes(value)


@pytest.mark.parametrize("count", [0, 1, 1000, 1024, 64 << 20, 3 << 30])
def test_a_size_is_shown_as_it_is_written(count: int) -> None:
    assert count == size_bytes(size_text(count))


def test_numbers_from_python_code_are_ready_values() -> None:
    assert 1_500 == duration_ms(1_500)
    assert 4_096 == size_bytes(4_096)
