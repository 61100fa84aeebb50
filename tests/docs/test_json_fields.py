"""docs/json.md, docs/commands.md and docs/operate/metrics.md name what programs read, as it is printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framework import Message
from framework.runtime.observe.metrics import families
from tests.docs.blocks import DOCS
from tests.docs.consoles import printed, stage
from tests.docs.test_commands_page import shown

COMMANDS, JSON = (DOCS / "commands.md").read_text(), (DOCS / "json.md").read_text()
LIVE = {
    "health": "health",
    "stacks": "stacks billing",
    "top": "top --count 1",
    "pause": "pause billing --yes",
    "resume": "resume billing --yes",
    "resize": "resize billing 2 --yes",
}
HANDLER = """
from framework import DeadLetter, Message, RetryLater, consumer

@consumer("orders", "billing")
def bill(body: str, message: Message) -> RetryLater | DeadLetter | None:
    if body == "early" and message.attempt == 1:
        return RetryLater("1s", "too early")
    return DeadLetter("never") if body == "never" else None
"""


def rows(text: str, head: str) -> dict[str, list[str]]:
    """The names in the last cell of each row of a table, by each name in its first cell."""
    lines = text.partition(head)[2].split("\n\n")[0].splitlines()[2:]
    cells = [line.strip("| ").split(" | ", 1) for line in lines]
    return {name: shown(rest) for first, rest in cells for name in re.findall(r"`(\w+)`", first)}


def test_fields_of_a_running_application(tmp_path: Path) -> None:
    named = rows(COMMANDS, "| JSON | fields |")
    with stage(DOCS / "operate" / "stalled.md", tmp_path):
        for command, words in LIVE.items():
            lines = [line for line in printed(f"framework-app {words} --json") if line.startswith("{")]

            assert named[command] == list(json.loads(lines[0])), command


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The first event of each kind of a run, and what it says when it is ready."""
    folder = tmp_path_factory.mktemp("events")
    (folder / "orders.py").write_text(HANDLER)
    with stage(DOCS / "json.md", folder) as box:
        box.send("orders", [Message("orders", body) for body in ("early", "never", "well")], queue=0)
        command = [sys.executable, "-m", "framework", "run", "orders.py", "--json", "--until-idle", "2s"]
        done = subprocess.run(
            [*command, "--set", "consumers.billing.start=first"], capture_output=True, text=True, check=True
        )
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    found: dict[str, dict[str, Any]] = {}
    for event in (json.loads(line) for line in lines if line.startswith("{")):
        found.setdefault(event["event"], event)
    return found


def test_fields_of_a_run_on_the_page_of_json(events: dict[str, dict[str, Any]]) -> None:
    section = JSON.partition("## `run --json`")[2].partition("\n## ")[0]
    delivery = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
    last = ["abandoned", "dead_lettered", "handled", "retried", "unconfirmed"]

    assert sorted(last) == sorted(name for name in delivery if name in last)
    assert [*events["retry"]] == [name for name in delivery if name not in last]
    assert [*events["handled"]] == [name for name in events["retry"] if name not in {"reason", "error"}]
    assert ["event", *last] == sorted([*events["stopped"], "unconfirmed"], key=["event", *last].index)
    samples = [json.loads(line) for line in re.search(r"```json\n(.*?)```", JSON, re.DOTALL)[1].splitlines()]  # type: ignore[index]
    for sample in samples:
        assert [*events[sample["event"]]] == [*sample], sample["event"]


def test_fields_of_a_run_on_the_page_of_commands(events: dict[str, dict[str, Any]]) -> None:
    table = COMMANDS.partition("| `event` | When, and its fields |")[2].partition("\n\n")[0]
    delivery, stopped = (re.findall(r"`(\w+)`", row.split(" | ", 1)[1]) for row in table.splitlines()[2:])

    assert {"handled", "retry", "dead_lettered", "stopped", "ready"} == set(events)
    without = [name for name in delivery if name not in {"handled", "worker"}]
    assert [*events["dead_lettered"]] == ["event", *without]
    assert [*events["stopped"], "unconfirmed"] == ["event", *stopped]
    ready = re.findall(r"`(\w+)`", COMMANDS.partition('`{"event": "ready", ...}` with ')[2].partition(";")[0])
    assert [*events["ready"], *events["ready"]["consumers"][0]] == ["event", *ready]


def test_each_metric_is_on_its_page_as_it_is_answered() -> None:
    page = (DOCS / "operate" / "metrics.md").read_text()
    suffix = {"counter": "_total", "info": "_info"}
    answered = [
        f"| `{each.name}{suffix.get(each.kind, '')}` | {each.kind}: {each.help} |" for each in families([], "1")
    ]

    assert sorted(answered) == sorted(
        re.findall(r"^\| `\w+` \| (?:info|gauge|counter|histogram): .*\|$", page, re.MULTILINE)
    )
