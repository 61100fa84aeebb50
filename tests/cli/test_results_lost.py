"""Results that a reader is slow to take, or that a disk does not take; and Ctrl-C, wherever it comes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from framework.cli import changes, entry, main
from framework.cli.exit_codes import ExitCode
from framework.runtime.logs import streams
from tests.cli.processes import ROOT

AT_IMPORT = """
import importlib.abc, os, signal, sys

class Pressed(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "framework.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

from framework.cli import entry
sys.meta_path.insert(0, Pressed())
sys.argv = ["framework-app", "topics"]
sys.exit(entry.run())
"""


@pytest.mark.parametrize(
    ("words", "is_patient"),
    [(["explain", "FA-S001"], True), (["run", "--help"], False), (["dev", "--help"], False), (["lag", "--help"], True)],
)
def test_who_consumes_nothing_waits_for_its_reader(
    words: list[str], is_patient: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[bool] = []
    monkeypatch.setattr(streams, "make_sure", lambda *, is_patient: told.append(is_patient))
    monkeypatch.setattr(entry, "note_signals", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["framework-app", *words])

    assert ExitCode.CLEAN == main.run()
    assert [is_patient] == told
    assert capsys.readouterr().out


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_result_that_a_full_disk_did_not_take_is_a_failure(more: tuple[str, ...]) -> None:
    """`lag --json >file` in a script: what is missing there would be taken for what is not there."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "framework", "explain", *more, "FA-S001"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT,
        )  # fmt: skip

    assert ExitCode.FAILED == done.returncode
    words = "the result was not written: No space left on device"
    expected = (
        f'{{"error": "{words}", "id": "FA-U007", "place": null}}\n'
        if more
        else f"error: {words} [FA-U007]\nhint: framework-app explain FA-U007\n"
    )
    assert expected == done.stderr


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    done = subprocess.run(
        f"{sys.executable} -m framework explain | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip

    assert (ExitCode.CLEAN, 1, "") == (done.returncode, len(done.stdout.splitlines()), done.stderr)


def test_ctrl_c_while_a_command_is_imported_shows_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT], capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip

    assert (ExitCode.LEFT_AT_ONCE, "", "") == (done.returncode, done.stdout, done.stderr)


class Pressed(io.StringIO):
    """A terminal where somebody presses Ctrl-C at the question."""

    def readline(self, *_: object) -> str:  # type: ignore[override]  # of two ways to call it
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the signal comes first")


def asked(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO) -> bool:
    monkeypatch.setattr(sys, "stdin", terminal)
    arguments = main.CommandParser()
    changes.add_change(arguments)
    return changes.is_confirmed(arguments.parse_args([]), "15 messages again. Reset?")


def test_ctrl_c_at_the_question_says_that_nothing_was_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        asked(monkeypatch, Pressed())
    assert "15 messages again. Reset? [y/N] \nnothing was changed\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "is_yes", "end"),
    [("y\n", True, ""), ("YES\n", True, ""), ("\n", False, ""), ("yeah\n", False, ""), ("", False, "\n")],
)
def test_only_a_yes_is_one(
    answer: str, is_yes: bool, end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last is Ctrl-D, after which the terminal's cursor is still in the line."""
    assert is_yes == asked(monkeypatch, io.StringIO(answer))
    assert f"15 messages again. Reset? [y/N] {end}" == capsys.readouterr().err
