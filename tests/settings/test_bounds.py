"""Values out of range: named in the units that people write, and the page says the range."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import ConfigurationError
from framework.settings.sources import load

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("app.budget: expected at least 1MiB, found 4KiB", "app: {budget: 4KiB}"),
        (
            "consumers.a.cache_bytes: expected at least 64KiB, found 1000B",
            "consumers: {a: {cache_bytes: 1000B}}",
        ),
        ("workers.max_memory: expected at least 16MiB, found 1MiB", "workers: {max_memory: 1MiB}"),
        ("app.grace: expected at most 10m, found 1h", "app: {grace: 1h}"),
        ("app.start_jitter: expected at most 1m, found 2m", "app: {start_jitter: 2m}"),
        ("consumers.a.timeout: expected at least 1ms, found 0s", "consumers: {a: {timeout: 0s}}"),
    ],
)
def test_what_is_out_of_range_is_said_in_units(expected: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "framework-app.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("key", "words"),
    [("budget", "At least `1MiB`."), ("cache_bytes", "At least `64KiB`."), ("start_jitter", "At most `1m`."),
     ("max_memory", "At least `16MiB`.")],
)  # fmt: skip
def test_the_page_says_the_range(key: str, words: str) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{key}` |")]
    assert words in row
