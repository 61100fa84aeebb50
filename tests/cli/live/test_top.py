"""`top`: rates of two looks, what is wrong first, keys that pause and resume, and a terminal that is left as it was."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.live import screen, top
from framework.cli.live.figures import Figures, figures, lines_of
from framework.model.snapshot import GroupSnapshot, PauseSnapshot
from tests.cli.live.played import Played, group, listening, picture, queue, worker

ROOT = Path(__file__).parents[3]
# A shell without job control has what it starts in the background ignore some signals.
BEGIN = """
import signal
from framework.cli.main import run

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
raise SystemExit(run())
"""
GONE = {"worker": 1, "process": 2, "error": "no answer within 4 s"}


def one(before: Any, now: Any) -> dict[str, Any]:
    (row,) = figures([worker(before)], [worker(now)]).rows
    return row


def test_rates_are_differences_of_two_looks_at_one_process() -> None:
    before = picture(group(handled=100, retried=5), up_ms=10_000)
    now = picture(group(handled=150, retried=6, dead_lettered=1, dropped=10), up_ms=12_000)

    assert (30.0, 1.0) == ((row := one(before, now))["handled_s"], row["failed_s"])
    assert None is one(picture(process=7), now)["handled_s"], "a process that was replaced began at 0"
    assert None is figures([], [worker(now)]).rows[0]["failed_s"], "one look says nothing"
    assert 0.0 == one(now, picture(group(), up_ms=13_000))["handled_s"], "never less than nothing"


def test_processes_are_added_up_and_the_worst_age_is_shown() -> None:
    first = picture(group(running=2, lag=5, oldest_ms=100, behind_ms=3_000, retries_waiting=1), process=1)
    second = picture(group(running=1, lag=7, oldest_ms=900, behind_ms=2_000, is_paused=True), process=2)
    (row,) = figures([], [worker(first), worker(second, 1)]).rows
    fields = (
        "processes",
        "queues",
        "running",
        "concurrency",
        "retries_waiting",
        "lag",
        "oldest_s",
        "behind_s",
        "state",
    )
    assert (2, 2, 3, 40, 1, 12, 0.9, 3.0, "paused in 1") == tuple(row[name] for name in fields)


def test_what_is_not_known_is_shown_as_unknown_and_at_least_as_such() -> None:
    unknown = figures([], [worker(picture(group(lag=None, behind_ms=None, is_lag_least=True)))])
    title, line = lines_of(unknown)
    assert ["LAG", "BEHIND", "OLDEST"] == title.split()[-3:]
    assert ["-", "-", "0", "-", "-", "-"] == line.split()[-6:]
    for found in (
        figures([], [worker(picture(group(lag=12310, is_lag_least=True)))]),
        figures([], [worker(picture(group(lag=12310))), GONE]),
    ):
        assert "12,310+" == lines_of(found)[1].split()[-3]


def test_a_process_with_nothing_to_do_does_not_speak_for_one_that_does_not_know() -> None:
    well, lost, idle = group(), group(behind_ms=None), group(behind_ms=None, queues=())

    def behind(*groups: GroupSnapshot) -> Any:
        (row,) = figures([], [worker(picture(each), number) for number, each in enumerate(groups)]).rows
        return row["behind_s"]

    assert [None, 0, None] == [behind(well, lost), behind(well, idle), behind(idle)]
    assert 3 == behind(well, lost, group(behind_ms=3_000))


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "flows"), ({"queues": ()}, "no queues"), ({"is_balanced": False}, "joins"), ({"hanging": 1}, "hangs"),
        ({"queues": (queue("span"),)}, "held"), ({"is_paused": True, "queues": (queue("paused"),)}, "paused"),
    ],
)  # fmt: skip
def test_each_group_has_its_state_in_a_word(facts: dict[str, Any], state: str) -> None:
    now = picture(group(**facts))
    assert state == one(now, now)["state"]


def test_a_paused_group_says_by_whom_until_when_and_why() -> None:
    pause = PauseSnapshot(at_ms=60_000, by="ana@desk", reason="bank is down", until_ms=660_000)
    first = picture(group(is_paused=True, pause=pause), group("mailing", is_paused=True), taken_ms=180_000)
    found = figures([], [worker(first)])
    assert [
        "billing: paused by ana@desk 2m ago, 8m left: bank is down",
        "mailing: paused by its settings",
    ] == found.pauses
    assert ["ana@desk", None] == [row["pause"] and row["pause"]["by"] for row in found.rows]
    assert found.is_well, "paused is nothing to mend"


def test_the_verdict_stands_first_and_names_what_is_wrong() -> None:
    well = figures([], [worker(picture(up_ms=3_600_000))])
    assert ("shop: ready, 1 process, up 1h", True, []) == (well.verdict, well.is_well, well.troubles)

    ill = picture(group(queues=(queue("span"), queue("span"))), not_ready=("group billing: a",), not_live=("b",))
    found = figures([], [worker(ill), GONE])
    assert ("shop: not ready, 2 processes, 1 without an answer, up 1m", False) == (found.verdict, found.is_well)
    assert [
        "worker 1: no answer within 4 s",
        "worker 0: b",
        "worker 0: group billing: a",
        "worker 0: billing: 2 queues held: span",
    ] == found.troubles
    many = picture(not_ready=tuple(map(str, range(20))))
    assert ["7", "and 12 more"] == figures([], [worker(many)]).troubles[-2:]
    assert Figures("no process answers", is_well=False, troubles=["no answer within 4 s"]) == figures([], [GONE])


def test_in_a_pipe_it_prints_tables_or_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "FIRST_SECONDS", 0.0)
    looks = [worker(picture(group(handled=10 * each), up_ms=1_000 * each + 1)) for each in range(4)]
    with listening(tmp_path / "s", Played(snapshot=looks)):
        assert 0 == main.run(["top", "--count", "2", "--every", "100ms", "--socket", str(tmp_path / "s")])
    lines = capsys.readouterr().out.splitlines()
    assert ["shop: ready, 1 process, up 1s", ""] == lines[:2]
    assert ["billing", "flows", "1", "0/20", "10", "0", "0", "0", "0s", "-"] == lines[3].split()
    assert 2 == sum(line.startswith("GROUP") for line in lines)

    with listening(tmp_path / "s", Played(snapshot={"workers": [worker(picture()), GONE]})):
        assert 0 == main.run(["top", "--count", "1", "--json", "--socket", str(tmp_path / "s")])
    row = json.loads(capsys.readouterr().out)
    assert (False, ["worker 1: no answer within 4 s"], "billing") == (row["ok"], row["troubles"], row["group"])


@contextmanager
def terminal(path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`framework-app top` in a terminal of its own: its process, and the other end of the terminal."""
    end, its = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    before = termios.tcgetattr(its)
    command = [sys.executable, "-c", BEGIN, "top", "--socket", str(path), "--every", "100ms"]
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    process = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, env=environment, cwd=path.parent, start_new_session=True
    )
    try:
        yield process, end
        assert before == termios.tcgetattr(its), "it takes keys by the line again, and shows them"
    finally:
        process.kill()
        process.wait()
        os.close(its)
        os.close(end)


def until(end: int, text: str, seen: str = "") -> str:
    """What is drawn until this is; the test's own time-out is the bound."""
    while text not in seen:
        select.select([end], [], [])
        seen += os.read(end, 65536).decode(errors="replace")
    return seen


def to_the_end(process: subprocess.Popen[bytes], end: int, seen: str = "") -> tuple[int, str]:
    """Its exit code, and what is drawn until then."""
    while process.poll() is None or select.select([end], [], [], 0)[0]:
        if select.select([end], [], [], 0.05)[0]:
            seen += os.read(end, 65536).decode(errors="replace")
    return process.returncode, seen


def test_keys_choose_pause_and_leave_and_the_terminal_is_as_it_was(tmp_path: Path) -> None:
    pictures = worker(picture(group(), group("mailing\x1b[2J")))
    played = Played(snapshot=pictures, pause={"worker": 0, "process": 100}, resume={"error": "no\x1b[2J"})
    with listening(tmp_path / "s", played), terminal(tmp_path / "s") as (process, end):
        seen = until(end, "> billing")
        assert seen.startswith(screen.ALTERNATE)
        os.write(end, b"p")
        until(end, "pause billing in every process? y/N")
        os.write(end, b"n")
        until(end, "pause billing: nothing was changed")
        os.write(end, b"j\x1b[A\x1b[Bpy")  # at once, as while the application is slow to answer
        drawn = until(end, "> mailing?[2J")  # and perhaps more: what comes together is read together
        drawn = until(end, "pause mailing?[2J in every process? y/N", drawn)
        until(end, "pause mailing?[2J: done", drawn)
        os.write(end, b"r")
        until(end, "resume mailing?[2J in every process? y/N")
        os.write(end, b"y")
        until(end, "resume mailing?[2J: no?[2J")
        os.write(end, b"q")
        code, rest = to_the_end(process, end)
    assert 0 == code
    assert [("pause", "mailing\x1b[2J"), ("resume", "mailing\x1b[2J")] == [
        (each["ask"], each["group"]) for each in played.changes
    ]
    _, left, after = rest.partition(screen.MAIN)
    assert left
    assert 2 == after.count("audit: 20"), "said where it can be read"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    with listening(tmp_path / "s", Played(snapshot=worker(picture()))), terminal(tmp_path / "s") as (process, end):
        until(end, "> billing")
        process.send_signal(number)
        code, rest = to_the_end(process, end)
    assert rest.endswith(screen.MAIN)
    assert (0 if number == signal.SIGINT else -number) == code


def test_an_application_that_ends_is_said_and_may_come_back(tmp_path: Path) -> None:
    with terminal(tmp_path / "s") as (process, end):
        code, said = to_the_end(process, end)
        assert (69, True) == (code, "no application listens" in said)
    with (
        listening(tmp_path / "s", Played(snapshot=worker(picture()))),
        terminal(tmp_path / "s") as (process, end),
    ):
        until(end, "> billing")
        (tmp_path / "s").rename(tmp_path / "away")
        until(end, "no application listens at")
        (tmp_path / "away").rename(tmp_path / "s")
        until(end, "> billing")
        os.write(end, b"q")
        assert 0 == to_the_end(process, end)[0]


def test_lines_are_cut_where_the_terminal_ends() -> None:
    assert "abc" == screen.cut("abcdef", 3)
    assert "\x1b[1mabc\x1b[0m" == screen.cut("\x1b[1mabcdef\x1b[0m", 3)
    assert "" == screen.cut("abc", 0)
