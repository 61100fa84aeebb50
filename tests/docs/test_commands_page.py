"""docs/commands.md: the fields of each command's JSON are those that it prints, on a real cluster and on the box."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import DOCS
from tests.interop.test_commands import FIELDS, LAST

ROWS = {
    row.split(" | ")[0].strip("| `"): row.split(" | ", 1)[1]
    for row in (DOCS / "commands.md").read_text().partition("| Command | Fields |")[2].split("\n\n")[0].splitlines()[2:]
}
SAME_WITH_GROUP = {"lag", "lag GROUP"}


def shown(cell: str) -> list[str]:
    """The names in a cell, without what a field may hold."""
    return re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cell))


@pytest.mark.parametrize("command", FIELDS)
def test_its_fields_are_on_the_page(command: str) -> None:
    words = command.split()
    is_two = words[0] in {"dlq", "tail"} or words[:2] == ["groups", "GROUP"]
    named = " ".join(words[:2]) if is_two else words[0]
    fields = FIELDS[command]
    if command in SAME_WITH_GROUP:
        assert sorted(fields) == sorted(["group", *FIELDS["groups GROUP"]])
        assert "the same with `group`" in ROWS["lag`, `lag GROUP"]
        return
    names = shown(ROWS[named])
    assert fields == names[: len(fields)]
    assert LAST.get(command, []) == [name for name in names if name in LAST.get(command, [])]
