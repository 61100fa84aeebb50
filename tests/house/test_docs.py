"""What the pages point to is there: tests, files, pages, and the headings of links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from framework.model.contracts import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("plugins/*/README.md")])


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_points_to_is_there(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    missing = [
        path for path in re.findall(r"`((?:plugins/\w+/)?tests/[\w/]+\.py)", text) if not (ROOT / path).is_file()
    ]
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            missing.append(target)

    assert [] == missing


def test_each_command_stands_in_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)

    assert [] == [name for name in COMMANDS if f"framework-app {name}" not in text and f"| `{name}" not in text]


def test_each_page_stands_in_the_site_s_navigation() -> None:
    """Sphinx says so as well, but the site is made by `make docs` alone."""
    listed = set(re.findall(r"^[\w/-]+$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in (ROOT / "docs").rglob("*.md")}

    assert set() == pages - {"index"} - listed
