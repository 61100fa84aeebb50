"""tests/features.md claims what tests show: each one that it names exists, and nothing is claimed without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (ROOT / "tests" / "features.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| Java |", "| Asked for |"))
]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_each_row_says_what_is_here() -> None:
    assert len(ROWS) > 100
    assert [] == [row for row in ROWS if len(row) != 4 or row[1] not in {"same", "better", "partly", "not"}]


def test_what_is_claimed_is_shown_and_what_is_not_here_has_its_reason() -> None:
    assert [] == [row[0] for row in ROWS if row[1] != "not" and not NAMED.fullmatch(row[3])]
    assert [] == [row[0] for row in ROWS if row[1] != "same" and not row[2]]


@pytest.mark.parametrize(("file", "name"), sorted({NAMED.fullmatch(row[3]).groups() for row in ROWS if row[3]}))  # type: ignore[union-attr]  # else the test above fails
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    path = ROOT / file if file.startswith("plugins/") else ROOT / "tests" / file
    assert path.is_file(), file
    assert re.search(rf"^(async )?def {name}\b", path.read_text(), re.MULTILINE), name


def test_each_worked_example_of_the_articles_stands_as_a_test() -> None:
    text = (ROOT / "tests" / "scenarios" / "test_articles.py").read_text()
    assert {str(number) for number in range(1, 9)} == set(re.findall(r"def test_lit_(\d)_", text))
