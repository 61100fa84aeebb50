"""The pages and the blocks of code in them. A block whose first line is a comment with a file's name is that file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        ROOT / "README.md",
        *DOCS.rglob("*.md"),
        *ROOT.glob("plugins/*/README.md"),
        ROOT / "example_app/README.md",
    ]
)
_FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"\s*(?:#|//|<!--) ([\w./-]+\.\w+|[\w./-]*Dockerfile)\b")


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """The file that it is, or nothing."""
        found = _NAME.match(self.text)
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, *languages: str) -> list[Block]:
    return [block for block in _all(page) if not languages or block.language in languages]


def everywhere(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page, *languages)]


def _all(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found[3].strip(), re.sub(f"^{found[1]}", "", found[4], flags=re.MULTILINE))


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


def write_files(page: Path, folder: Path) -> list[Path]:
    """Every block of this page that is a file, as that file; of those with one name the first, so that a page may show
    a change later."""
    written = []
    for block in blocks(page):
        path = folder / block.name
        if block.name and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
            written.append(path)
    return written
