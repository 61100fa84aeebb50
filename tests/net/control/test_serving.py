"""A control socket: who reaches it, what it answers to what cannot be read, and whose file is whose."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from framework.errors import ConfigurationError
from framework.net.control import asking, places, serving
from framework.net.control.asking import ControlFailed, NobodyListens, ask, ask_all
from framework.net.control.serving import ControlSocket
from framework.net.real_world import RealWatchman
from tests.patience import PATIENCE_S


@contextmanager
def listening(path: Path, answer: serving.Answers = dict) -> Iterator[ControlSocket]:
    """Answers what it was asked, if nothing else is said."""
    opened = ControlSocket(path, answer, RealWatchman())
    assert opened.open()
    try:
        yield opened
    finally:
        opened.close()


def raw(path: Path, sent: bytes, *, ends: bool = False) -> dict[str, str]:
    """What comes back for these very bytes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        with suppress(BrokenPipeError):  # it has been given up already: the answer says why
            connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            found: dict[str, str] = json.loads(answer.readline())
            return found


def test_a_line_is_asked_and_a_line_is_answered(tmp_path: Path) -> None:
    with listening(tmp_path / "a.sock"):
        assert {"ask": "é\n"} == ask(tmp_path / "a.sock", {"ask": "é\n"}, PATIENCE_S)


def test_only_its_user_reaches_it_and_it_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    before = os.umask(0)
    try:
        with listening(path):
            assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    finally:
        os.umask(before)
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(NobodyListens):
        ask(path, {}, PATIENCE_S)


def test_it_answers_no_other_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of the file's mode, the system says who connected."""
    monkeypatch.setattr(serving, "_is_ours", lambda _: False)
    with listening(tmp_path / "a.sock"):
        assert "its own user" in ask(tmp_path / "a.sock", {}, PATIENCE_S)["error"]


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"nonsense\n", "one line with a JSON object"),
        (b"\xff\xfe\n", "one line with a JSON object"),
        (b"[1]\n", "one line with a JSON object"),
        (b"[" * 4000 + b"\n", "one line with a JSON object"),
        (b"x" * 5000, "4096 bytes at most"),
    ],
)
def test_what_cannot_be_read_is_answered_with_an_error(tmp_path: Path, sent: bytes, said: str) -> None:
    with listening(tmp_path / "a.sock"):
        assert said in raw(tmp_path / "a.sock", sent)["error"]
        assert {"a": 1} == ask(tmp_path / "a.sock", {"a": 1}, PATIENCE_S), "and goes on"


def test_a_request_that_ends_early_or_never_comes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(tmp_path / "a.sock"):
        assert "ended before" in raw(tmp_path / "a.sock", b"{", ends=True)["error"]
        monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.05)
        assert "no whole line" in raw(tmp_path / "a.sock", b"{")["error"]


def test_an_answer_that_fails_is_told_and_logged(tmp_path: Path) -> None:
    def fails(_: object) -> dict[str, object]:
        raise ZeroDivisionError("by nothing")

    with capture_logs() as lines, listening(tmp_path / "a.sock", fails):
        assert "ZeroDivisionError: by nothing" == ask(tmp_path / "a.sock", {}, PATIENCE_S)["error"]
    assert ["control request failed"] == [line["event"] for line in lines]


def test_a_crowd_is_told_to_come_again(tmp_path: Path) -> None:
    goes_on, all_here = threading.Event(), threading.Semaphore(0)

    def waits(_: object) -> dict[str, object]:
        all_here.release()
        assert goes_on.wait(PATIENCE_S)
        return {"ok": True}

    path = tmp_path / "a.sock"
    with listening(path, waits):
        answers: list[dict[str, object]] = []
        asking = [
            threading.Thread(target=lambda: answers.append(ask(path, {}, PATIENCE_S)))
            for _ in range(serving.CONNECTIONS_MAX)
        ]
        for each in asking:
            each.start()
            assert all_here.acquire(timeout=PATIENCE_S)
        assert "ask again" in ask(path, {}, PATIENCE_S)["error"]
        goes_on.set()
        for each in asking:
            each.join()
        assert [{"ok": True}] * serving.CONNECTIONS_MAX == answers


def test_several_are_asked_at_once_and_each_that_does_not_answer_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_the_first_answers = iter([0.0, 0.0])
    monkeypatch.setattr(asking, "CLOCK", Mock(monotonic=lambda: next(until_the_first_answers, PATIENCE_S)))
    with listening(tmp_path / "well"), socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "stopped"))
        stopped.listen()
        found = ask_all({0: tmp_path / "well", 1: tmp_path / "stopped", 2: tmp_path / "gone"}, {"a": 1}, PATIENCE_S)

    assert {"a": 1} == found[0]
    assert isinstance(found[1], ControlFailed)
    assert "no answer within 60 s" in str(found[1])
    assert isinstance(found[2], NobodyListens)


def test_the_file_of_a_process_that_is_gone_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    assert path.is_socket()
    with listening(path):
        assert {} == ask(path, {}, PATIENCE_S)


@pytest.mark.parametrize("kind", ["another process listens there", "a file that is no socket"])
def test_what_is_anothers_is_not_taken_and_that_is_said(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.sock"
    if "file" in kind:
        path.write_text("precious")
        with capture_logs() as lines:
            assert not ControlSocket(path, dict, RealWatchman()).open()
        assert "precious" == path.read_text()
    else:
        with listening(path, lambda _: {"who": "first"}):
            with capture_logs() as lines:
                second = ControlSocket(path, dict, RealWatchman())
                assert not second.open()
                second.close()
            assert "first" == ask(path, {}, PATIENCE_S)["who"]
    assert ["control socket not opened"] == [line["event"] for line in lines]
    assert kind in lines[0]["reason"]


def test_a_path_that_is_too_long_is_named_with_the_way_out() -> None:
    path = Path("/tmp") / ("x" * 100)
    with pytest.raises(
        ConfigurationError, match=r"105 bytes, and a Unix socket's 100 at most; set app\.control to a s"
    ):
        places.checked(path)
    with capture_logs() as lines:
        assert not ControlSocket(path, dict, RealWatchman()).open()
    assert "105 bytes" in lines[0]["reason"]


FORKED = """
import os, sys
from pathlib import Path
from framework.net.control.serving import ControlSocket
from framework.net.real_world import RealWatchman

opened = ControlSocket(Path(sys.argv[1]), dict, RealWatchman())
assert opened.open()
if os.fork() == 0:
    opened.close()
    print("forked", flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.buffer.raw.read(1)
os._exit(1)
"""


def test_a_forked_child_neither_keeps_nor_takes_the_socket(tmp_path: Path) -> None:
    """It outlives its parent here: who connects then is refused, and the name is free."""
    path = tmp_path / "a.sock"
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        assert "forked\n" == process.stdout.readline()
        assert path.is_socket(), "the child's close took nothing away"
        assert {"a": 1} == ask(path, {"a": 1}, PATIENCE_S)
        process.kill()
        process.wait()
        with pytest.raises(NobodyListens):
            ask(path, {}, PATIENCE_S)
        process.stdin.close()
