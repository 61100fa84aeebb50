"""docs/broker-requests.md says what the broker answers, no more and no less; what it calls working is run by a test."""

from __future__ import annotations

import re
from pathlib import Path

from framework.broker.handlers import HANDLERS
from framework.broker.switches import NAMES
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "broker-requests.md").read_text(encoding="utf-8")

TO_CLIENTS = {39, 40, 220, 221, 326}  # what a broker asks of a client, and nobody of a broker


def test_every_other_request_is_said_not_to_be_there_and_refused_with_its_number() -> None:
    told = PAGE.split("Not there: ")[1].split("## ")[0]
    ranges = re.findall(r"\b(\d+)(?: to (\d+))?\b", told)
    absent = {int(code) for first, last in ranges for code in range(int(first), int(last or first) + 1)}
    known = {int(code) for code in RequestCode}

    assert known - TO_CLIENTS - set(HANDLERS) <= absent
    assert not absent & set(HANDLERS)
    lab = BrokerLab()
    for code in {*(known & absent), 9999}:
        answer = lab.answer(RemotingCommand(code))
        assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


def test_every_switch_stands_in_the_table() -> None:
    page = (ROOT / "docs" / "broker-details.md").read_text(encoding="utf-8")
    running = page.split("## Settings of a running broker")[1].split("## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", running, re.MULTILINE)) == NAMES


def test_commands_that_work_are_run() -> None:
    run = (ROOT / "tests" / "interop" / "test_box_administration.py").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+(?:, \w+)*) \| (yes|refused) \|", PAGE, re.MULTILINE)
    told = [command for commands, _ in rows for command in commands.split(", ")]

    assert len([fate for _, fate in rows if fate == "yes"]) >= 45
    assert [command for command in told if not re.search(rf'"{command}[" ]', run)] == []
