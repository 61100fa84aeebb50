"""`pause`, `resume`, `resize`: a plan is shown, somebody says yes, every process is told, and a line says by whom."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from framework.cli import changes, main
from framework.cli.exit_codes import ExitCode
from tests.cli.live.played import Played, group, listening, picture, worker


def done(number: int, **facts: Any) -> dict[str, Any]:
    return {
        "worker": number, "process": 100 + number, "group": "billing", "paused_before": False, "paused": True,
        "concurrency_before": 20, "concurrency": 20, **facts,
    }  # fmt: skip


def shop(**answers: Any) -> Played:
    first = picture(group(running=2, lag=1200, behind_ms=1), group("mailing"), process=100)
    second = picture(group(running=1, lag=None, concurrency=10), process=101)
    return Played(
        **{
            "snapshot": {"workers": [worker(first, 0), worker(second, 1)]},
            "pause": {"workers": [done(0), done(1)]},
            "resize": {"workers": [done(0, concurrency=40), {"worker": 1, "process": 101, "error": "it is\nblocked"}]},
            "resume": {"workers": [done(0), done(1)]},
            **answers,
        }
    )


def told(
    path: Path, capsys: pytest.CaptureFixture[str], played: Played, *words: str
) -> tuple[int, list[str], list[str]]:
    with listening(path / "s", played):
        code = main.run([*words, "--socket", str(path / "s")])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err.splitlines()


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (("pause", "billing"),
         ("billing of shop in 2 processes: no handler starts until `resume`, and those that run finish; "
         "handlers that run now: 3; messages not done: 1,200 or more")),
        (("resume", "billing"), "billing of shop in 2 processes: it is not paused"),
        (("resize", "billing", "40"),
         ("billing of shop in 2 processes: from 10 or 20 to 40 handlers at once in each; handlers that run now: 3; "
         "messages not done: 1,200 or more")),
        (("pause", "shop%mailing"),
         ("shop%mailing of shop in 1 process: no handler starts until `resume`, and those that run finish; "
         "handlers that run now: 0; messages not done: 0")),
    ],
)  # fmt: skip
def test_a_dry_run_shows_the_plan_and_tells_nobody(
    tmp_path: Path, words: tuple[str, ...], plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    played = shop()
    assert (
        ExitCode.CLEAN,
        [plan],
        [f"{words[0]}: nothing was changed (--dry-run)"],
    ) == told(tmp_path, capsys, played, *words, "--dry-run")
    assert [] == played.changes


def test_a_dry_run_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = told(tmp_path, capsys, shop(), "pause", "billing", "--dry-run", "--json")
    rows = [json.loads(line) for line in lines]
    assert ExitCode.CLEAN == code
    assert [(0, 20), (1, 10)] == [(row["worker"], row["concurrency"]) for row in rows]


def test_where_nobody_can_be_asked_it_does_nothing_without_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = shop()
    for words in (("pause", "billing"), ("resize", "billing", "3", "--json")):
        code, out, (error,) = told(tmp_path, capsys, played, *words)
        assert (ExitCode.USAGE, []) == (code, out)
        assert "add --yes to do it, or --dry-run" in error
    assert [] == played.asked


@pytest.mark.parametrize(("answer", "code", "told_"), [("y\n", 0, 1), ("\n", 1, 0), ("", 1, 0)])
def test_on_a_terminal_it_asks_and_no_is_the_default(
    tmp_path: Path,
    answer: str,
    code: int,
    told_: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "check_askable", lambda _: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    played = shop()
    found, _, errors = told(tmp_path, capsys, played, "pause", "billing")
    assert (code, told_) == (found, len(played.changes))
    assert errors[0].startswith("pause billing? [y/N]")


def test_every_process_is_told_and_an_audit_line_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = shop()
    code, lines, (audit,) = told(tmp_path, capsys, played, "pause", "billing", "--yes")
    assert ExitCode.CLEAN == code
    assert [{"ask": "pause", "group": "billing", "by": changes.who()}] == played.changes
    assert ["WORKER", "PROCESS", "GROUP", "PAUSED", "CONCURRENCY"] == lines[1].split()
    assert [["0", "100", "billing", "yes", "20"], ["1", "101", "billing", "yes", "20"]] == [
        line.split() for line in lines[2:]
    ]
    assert audit.startswith("audit: 20")
    assert audit.endswith(" pause group=billing application=shop processes=2 failed=0")


def test_a_pause_may_have_an_end_and_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pause = {"at_ms": 0, "by": "ana@desk", "reason": "bank is down", "until_ms": 600_000}
    played = shop(pause=done(0, pause=pause))
    words = ("pause", "billing", "--for", "10m", "--reason", "bank is down", "--yes", "--json")
    code, (line,), (audit,) = told(tmp_path, capsys, played, *words)
    assert ExitCode.CLEAN == code
    asked = {"ask": "pause", "group": "billing", "by": changes.who(), "length": "10m", "reason": "bank is down"}
    assert [asked] == played.changes
    shown = {"by": "ana@desk", "at": "1970-01-01T00:00:00.000Z", "until": "1970-01-01T00:10:00.000Z"}
    assert {**shown, "reason": "bank is down"} == json.loads(line)["pause"]
    assert ' pause group=billing length=10m reason="bank is down" application=shop processes=1 failed=0' in audit
    for length in ("0s", "-1s", "soon", "400d"):
        code, _, (error,) = told(tmp_path, capsys, played, "pause", "billing", f"--for={length}", "--yes")
        assert ExitCode.USAGE == code
        assert f"argument --for: '{length}' is" in error
    code, _, (error,) = told(tmp_path, capsys, played, "pause", "billing", "--reason", "x" * 501, "--yes")
    assert (ExitCode.USAGE, True) == (code, "501 signs are too many; write 500 at most" in error)


def test_one_that_did_not_do_it_is_named_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = shop()
    code, lines, (audit,) = told(tmp_path, capsys, played, "resize", "billing", "40", "--yes", "--json")
    assert ExitCode.FAILED == code
    assert [{"ask": "resize", "group": "billing", "by": changes.who(), "to": 40}] == played.changes
    first, second = (json.loads(line) for line in lines)
    assert (40, 20, None) == tuple(first[name] for name in ("concurrency", "concurrency_before", "error"))
    assert (1, None, "it is\nblocked") == tuple(second[name] for name in ("worker", "concurrency", "error"))
    assert audit.endswith(" resize group=billing to=40 application=shop processes=1 failed=1")
    code, lines, _ = told(tmp_path, capsys, shop(), "resize", "billing", "40", "--yes")
    assert (ExitCode.FAILED, True) == (code, lines[-1].endswith("it is?blocked"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("biling", "no group 'biling' runs in shop; did you mean 'billing'?"),
        ("later", "group 'later' has not started"),
    ],
)
def test_a_group_that_does_not_run_is_a_mistake(
    tmp_path: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    played = shop(snapshot=worker(picture(dormant=("later",))))
    code, _, errors = told(tmp_path, capsys, played, "pause", name, "--yes")
    assert (ExitCode.CONFIGURATION, []) == (code, played.changes)
    assert said in errors[0]


def test_where_no_process_answers_nothing_is_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = shop(snapshot={"workers": [{"worker": 0, "process": 1, "error": "the event loop has not answered"}]})
    code, _, errors = told(tmp_path, capsys, played, "pause", "billing", "--yes")
    assert (ExitCode.FAILED, ["framework-app pause: the event loop has not answered [FA-U006]"]) == (code, errors)
    assert [] == played.changes
