"""README.md and docs/tutorial.md, done as a new user would: in a folder of one's own, with two terminals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, ROOT
from tests.docs.terminals import Terminals


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "tutorial.md"], ids=["README", "tutorial"])
def test_a_new_user_sees_what_the_page_says(page: Path, tmp_path: Path) -> None:
    with Terminals(tmp_path).opened() as terminals:
        assert [] == terminals.play(page)


def test_the_first_message_takes_a_file_and_three_commands() -> None:
    """Install, `dev`, `send`."""
    first_screen = (ROOT / "README.md").read_text().partition("\n## ")[0]
    typed = re.findall(r"^(?:\$ )?(pip install|framework-app \w+) ", first_screen, re.MULTILINE)

    assert ["pip install", "framework-app dev", "framework-app send"] == list(dict.fromkeys(typed))[:3]
    assert len(first_screen.splitlines()) <= 60
