"""What a page says that a command prints is what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import consoles
from tests.docs.blocks import page_id


@pytest.mark.parametrize("page", consoles.staged(), ids=page_id)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    assert [] == consoles.differences(page, tmp_path)


@pytest.mark.parametrize(
    ("expected", "printed", "is_same"),
    [
        ("TOPIC   QUEUE  LAG", "TOPIC  QUEUE     LAG", True),
        ("orders  0      12", "orders  3  4,711", True),
        ("orders  0      12  m1", "orders  3  -   m1", True),
        ("orders  0      12  m1", "orders  3  -", False),
        ("billing: 2 dead letters", "billing: no dead letters", False),
    ],
)
def test_figures_and_widths_may_differ_and_nothing_else(expected: str, printed: str, is_same: bool) -> None:
    assert is_same == (consoles.masked([expected]) == consoles.masked([printed]))


def test_a_block_is_parted_at_its_commands() -> None:
    first, second = consoles.steps("$ framework-app lag\nbilling: 3\n\nTOPIC\n$ framework-app topics\n")

    assert (["framework-app lag", "framework-app topics"], ["billing: 3", "", "TOPIC"]) == (
        [first.command, second.command],
        first.expected,
    )
