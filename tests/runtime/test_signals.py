"""Signals: one drains, two leave. With real signals to a process of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from framework.runtime import signals
from framework.runtime.signals import LEAVE_NOW, draining

# Held up between the signals until a line comes, so that nothing depends on how fast this machine is. It looks again
# and again: a signal that comes a moment before a read that blocks is handled only behind that read.
PROGRAM = """
import select, signal, sys
from framework.runtime import signals
if sys.argv[2] == "patient":
    signals.ECHO_SECONDS = 0.0
with signals.draining(lambda: print("draining", flush=True), leave=lambda: print("leaving", flush=True)):
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass
    sys.stdin.readline()
print("ended", flush=True)
"""


def started(mode: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "-", mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert "ready\n" == line_of(process)
    return process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_drains_and_nothing_else(number: signal.Signals) -> None:
    with started("patient") as process:
        process.send_signal(number)
        assert "draining\n" == line_of(process)

        output, _ = process.communicate("end\n")

    assert "ended\n" == output
    assert 0 == process.returncode


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_leaves_at_once(second: signal.Signals) -> None:
    with started("patient") as process:
        process.send_signal(signal.SIGINT)
        assert "draining\n" == line_of(process)

        process.send_signal(second)
        assert "leaving\n" == line_of(process)
        process.wait()

    assert LEAVE_NOW == process.returncode


def test_a_second_signal_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    with started("patient") as process:
        process.send_signal(signal.SIGINT)
        assert "draining\n" == line_of(process)
        process.send_signal(signal.SIGINT)
        process.wait()

    assert [
        "left at once by a second signal: handlers that ran are not waited for"
    ] == capfd.readouterr().err.splitlines()


def test_the_echo_of_one_wish_is_not_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches a whole group, and a parent in it passes it on as well."""
    monkeypatch.setattr(signals, "ECHO_SECONDS", 3600.0)
    asked: list[str] = []

    with draining(lambda: asked.append("drain"), leave=lambda: asked.append("leave")):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    assert ["drain"] == asked


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)

    with draining(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before
