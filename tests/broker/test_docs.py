"""docs/broker.md says what the broker answers, no more and no less; what it calls working is run by a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from framework.broker.handlers import HANDLERS
from framework.broker.switches import NAMES
from framework.wire.codes import RequestCode

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "broker.md").read_text(encoding="utf-8")
FOLDER = ROOT / "framework" / "broker" / "handlers"


def test_every_request_stands_in_the_table_with_its_differences() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| .+ \| (.+) \|$", PAGE, re.MULTILINE)
    heads = {path.name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in FOLDER.glob("rc_*")}
    told = {
        int(name.split("_")[1]): " ".join((head or "").partition("Differences:")[2].split())
        for name, head in heads.items()
    }

    assert {int(code): differences for code, _, differences in rows} == told, "copy the file's text into the page"
    assert {int(code): name for code, name, _ in rows} == {code: RequestCode(code).name for code in HANDLERS}


def test_every_switch_stands_in_the_table() -> None:
    assert tuple(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == NAMES


def test_commands_that_work_are_run() -> None:
    run = (ROOT / "tests" / "interop" / "test_box_administration.py").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+(?:, \w+)*) \| (yes|refused) \|", PAGE, re.MULTILINE)
    told = [command for commands, _ in rows for command in commands.split(", ")]

    assert len([fate for _, fate in rows if fate == "yes"]) >= 45
    assert [command for command in told if not re.search(rf'"{command}[" ]', run)] == []
