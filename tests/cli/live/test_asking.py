"""`health`, `stacks` and `snapshot`: what they print for people and for programs, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.cli.live.played import Played, listening, picture, worker


def told(
    path: Path, capsys: pytest.CaptureFixture[str], played: Played, *words: str
) -> tuple[int, list[str], list[str]]:
    with listening(path / "s", played):
        code = main.run([*words, "--socket", str(path / "s")])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err.splitlines()


ROOT = Path(__file__).parents[3]
WELL = {"worker": 0, "process": 1, "reasons": [], "phase": "running"}
ILL = {"worker": 1, "process": 2, "reasons": ["the event loop\nhas not answered"], "phase": None}
STARTING = {"worker": 2, "process": 3, "error": "it is starting, and does not listen yet", "is_starting": True}
GONE = {"worker": 3, "process": 4, "error": "no answer within 4 s"}


@pytest.mark.parametrize(
    ("words", "answer", "code", "line"),
    [
        ((), WELL, 0, "live"),
        (("--ready",), WELL, 0, "ready"),
        ((), {**WELL, "reasons": ["a", "b\x1b[2J"]}, 1, "not live: a; b?[2J"),
        ((), {"workers": [WELL, STARTING]}, 0, "live"),
        (("--ready",), {"workers": [WELL, STARTING]}, 1, f"not ready: worker 2: {STARTING['error']}"),
        ((), {"workers": [WELL, ILL, GONE]}, 1,
         "not live: worker 1: the event loop has not answered; worker 3: no answer within 4 s"),
        ((), {"worker": 0}, 1, "not live: its answer has no reasons: it is of another version"),
    ],
)  # fmt: skip
def test_health_is_a_code_and_a_line(
    tmp_path: Path, words: tuple[str, ...], answer: Any, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (code, [line], []) == told(tmp_path, capsys, Played(health=answer), "health", *words)


def test_health_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = Played(health={"workers": [WELL, ILL]})
    code, (line,), _ = told(tmp_path, capsys, played, "health", "--ready", "--json")
    assert ExitCode.FAILED == code
    assert {
        "asked": "ready", "ok": False, "reasons": ["worker 1: the event loop has not answered"], "workers": 2,
        "paused": [],
    } == json.loads(line)  # fmt: skip
    assert [{"ask": "health", "ready": True}] == played.asked


def test_health_says_which_groups_are_paused_and_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pause = {"at_ms": 0, "by": "ana@desk", "reason": "bank is down", "until_ms": None}
    paused = [{"group": "billing", "pause": pause}, {"group": "mailing", "pause": None}]
    answer = {"workers": [{**WELL, "paused": paused}, {**WELL, "worker": 1, "paused": paused}]}
    code, (line,), _ = told(tmp_path, capsys, Played(health=answer), "health", "--ready")
    assert ExitCode.CLEAN == code
    assert line.startswith("ready; billing is paused by ana@desk ")
    assert line.endswith(" ago, until `resume`: bank is down; mailing is paused by its settings")
    _, (line,), _ = told(tmp_path, capsys, Played(health=answer), "health", "--json")
    assert [("billing", "ana@desk"), ("mailing", None)] == [
        (each["group"], each.get("by")) for each in json.loads(line)["paused"]
    ]


def test_a_probe_imports_little(tmp_path: Path) -> None:
    """It runs in each container each few seconds."""
    asks = "import sys; from framework.cli import main; main.run(['health', '--socket', '/nonexistent/socket']); "
    heavy = ("asyncio", "pydantic", "structlog", "yaml", "ssl", "framework.settings", "framework.client")
    found = subprocess.run(
        [sys.executable, "-c", f"{asks}print([each for each in {heavy} if each in sys.modules])"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
    )  # fmt: skip
    assert "[]" == found.stdout.splitlines()[-1]


def handler(group: str, age_ms: int, **facts: Any) -> dict[str, Any]:
    return {
        "group": group, "topic": "orders", "broker": "broker-a", "queue": 1, "offset": 7, "message_id": "7F00",
        "keys": [], "attempt": 1, "messages": 1, "offsets": [7], "age_ms": age_ms, "is_given_up": False, "in": "task",
        "stack": ["sleep(asyncio/tasks.py:649)", "bill(shop.py:7)"], **facts,
    }  # fmt: skip


STACKS = Played(
    stacks={
        "workers": [
            {"worker": 0, "process": 1, "handlers": [handler("billing", 500)], "blocked": None},
            {"worker": 1, "process": 2, "blocked": None, "handlers": [
                handler("shipping", 61_000, keys=["k\x1b[31m"], messages=3, is_given_up=True, attempt=2)
            ]},
        ]
    }
)  # fmt: skip


def test_stacks_show_the_oldest_first_and_nothing_that_moves_the_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        ExitCode.CLEAN,
        [
            "2 handlers run, the oldest for 1m 1s",
            "",
            "worker 1: shipping  1m 1s  orders broker-a:1:7  7F00  k?[31m  attempt 2  task  3 messages  given up",
            "    sleep(asyncio/tasks.py:649)",
            "    bill(shop.py:7)",
            "",
            "worker 0: billing  500ms  orders broker-a:1:7  7F00  attempt 1  task",
            "    sleep(asyncio/tasks.py:649)",
            "    bill(shop.py:7)",
        ],
        [],
    ) == told(tmp_path, capsys, STACKS, "stacks")


def test_stacks_of_one_group_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = told(tmp_path, capsys, STACKS, "stacks", "billing", "--json")
    assert ExitCode.CLEAN == code
    assert [{"worker": 0, "process": 1, **handler("billing", 500)}] == [json.loads(line) for line in lines]


def test_stacks_of_a_group_that_does_not_run_are_a_mistake_and_no_group_that_rests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resting = {"worker": 0, "process": 1, "handlers": [], "blocked": None}
    idle = Played(stacks={"workers": [resting]}, snapshot=worker(picture()))
    assert (0, ["no handler runs"], []) == told(tmp_path, capsys, idle, "stacks", "billing")
    code, lines, errors = told(tmp_path, capsys, idle, "stacks", "biling")
    assert (ExitCode.CONFIGURATION, []) == (code, lines)
    assert "no group 'biling' runs in shop; did you mean 'billing'?" in errors[0]
    silent = Played(stacks={"workers": [GONE]}, snapshot={"workers": [GONE]})
    assert 1 == told(tmp_path, capsys, silent, "stacks", "biling")[0], "who cannot be asked for groups is said"


def test_what_blocks_the_loop_and_who_does_not_answer_are_named_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = {
        "worker": 0,
        "process": 1,
        "handlers": [handler("billing", 500)],
        "blocked": "blocked at bill(shop.py:9)",
    }
    code, lines, errors = told(tmp_path, capsys, Played(stacks={"workers": [blocked, GONE]}), "stacks")
    assert ExitCode.FAILED == code
    assert "1 handler runs, for 500ms" == lines[0]
    assert ["worker 0: blocked at bill(shop.py:9)", "worker 3: no answer within 4 s"] == errors


def test_a_snapshot_is_json_in_either_form_and_who_is_silent_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = Played(snapshot={"workers": [worker(picture(process=1)), GONE]})
    code, lines, errors = told(tmp_path, capsys, played, "snapshot", "--json")
    assert (ExitCode.FAILED, ["unknown: worker 3: no answer within 4 s"]) == (code, errors)
    first, second = (json.loads(line) for line in lines)
    assert ("shop", "billing") == (first["name"], first["groups"][0]["own_name"])
    assert {"worker": 3, "process": 4, "error": "no answer within 4 s"} == second

    code, lines, errors = told(tmp_path, capsys, Played(snapshot=worker(picture())), "snapshot")
    assert (ExitCode.CLEAN, []) == (code, errors)
    assert "shop" == json.loads("\n".join(lines))["name"]
