"""Docs, help, errors and log events name who acts: "whoever", "nobody" and the like cannot be looked up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("plugins/*/README.md"), *ROOT.glob("framework/catalogue/*.md")]
    + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "example_app/README.md")]
)
"""With the generated ones: options.md has all help, errors.md each error, logs.md each event."""
VAGUE = re.compile(r"\b(?:whoever|nobody|likewise|as ever|one that)\b", re.IGNORECASE)


def vague(text: str) -> list[str]:
    """Such words outside of code: the state of a group without members is called `nobody`."""
    prose = re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    return [prose[max(match.start() - 40, 0) : match.end() + 20] for match in VAGUE.finditer(prose)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_who_acts(page: Path) -> None:
    assert [] == vague(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text", ["Whoever takes it", "nobody answers", "A broker, or one that restarts", "goes on as ever"]
)
def test_a_vague_word_is_seen(text: str) -> None:
    assert vague(text)


def test_a_word_of_the_code_is_none() -> None:
    assert not vague("the state `nobody`\n```\nnobody\n```\n")
