"""What is meant stands where it is meant: no file points at a document that is not in this repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("framework", "plugins", "tests", "benchmarks", "docs", "config", "deploy", "example_app")
ELSEWHERE = re.compile(
    r"\b(?:INVARIANTS|DECISIONS \d|SECURITY(?:,? [A-Z]\d|,? rule|,? section)|INV-\d|PLAIN-ENGLISH|CONTRACTS\.md)"
)


def texts() -> list[Path]:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    return [path for path in files if path.suffix in {".py", ".md", ".yaml", ".toml"} and "build" not in path.parts]


def test_no_file_points_at_a_document_that_is_not_here() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in texts()
        if path != Path(__file__)
        for match in ELSEWHERE.finditer(path.read_text(encoding="utf-8"))
    ]
    assert [] == found


@pytest.mark.parametrize("line", ["INVARIANTS C1: nothing is lost", "as DECISIONS 8 says", "(SECURITY F10)", "INV-3b"])
def test_one_that_does_is_seen(line: str) -> None:
    assert ELSEWHERE.search(line)
