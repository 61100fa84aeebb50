"""docs/measured.md is one short table: what a user asks about first, each with its command, commit and load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in (ROOT / "docs" / "measured.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| What ")
]
TESTS = [path for folder in ("tests", "plugins") for path in (ROOT / folder).rglob("test_*.py")]


def test_there_are_twenty_rows_at_most() -> None:
    """A new one takes the place of another, which goes to benchmarks/history.md."""
    assert 10 < len(ROWS) <= 20


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:40] for row in ROWS])
def test_each_row_says_how_it_was_measured(row: list[str]) -> None:
    _, _, command, where = row
    assert re.search(r"`[^`]+`", command)
    assert re.fullmatch(r"[0-9a-f]{7,8}, (idle|\d+( to \d+)?)", where)
    for name in re.findall(r"python -m benchmarks\.(\w+)", command):
        assert (ROOT / "benchmarks" / f"{name}.py").is_file() or (ROOT / "benchmarks" / name / "__main__.py").is_file()
    for part in re.findall(r"PART=(\w+)", command):
        assert any(part in path.name or part in path.read_text() for path in TESTS), part
