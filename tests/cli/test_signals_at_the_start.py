"""Signals at every moment of a start: it ends in order, with its last line and 0, and never by the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.processes import ROOT, Errors, command
from tests.patience import wait_until

SHOP = """
from framework import Message, consumer


@consumer("orders", "billing")
async def bill(order: Message) -> None: ...
"""
SETTINGS = "app: {handlers: [shop]}\ncluster: {name_servers: [127.0.0.1:1]}\n"
# Says by a line of its own when the first instruction is past: what comes before is Python's, and nobody's to note.
NOTED = "import sys; from framework.cli import entry; entry.note_signals(sys.argv[1:]); print('noted', flush=True)"
STEPS_MS = range(0, 1200, 10)
AT_ONCE = 8  # processes side by side, so that the steps take less long than one after the other


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    return tmp_path


def started(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{NOTED}; sys.exit(entry.run())", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert "noted\n" == process.stdout.readline()
    return process


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "arguments", [("run",), ("run", "--workers", "2"), ("dev",), ("broker", "--memory")], ids=" ".join
)
def test_a_signal_at_any_moment_of_a_start_ends_it_in_order(arguments: tuple[str, ...], shop: Path) -> None:
    check(arguments, shop, STEPS_MS)


@pytest.mark.parametrize(
    "arguments", [("run",), ("run", "--workers", "2"), ("dev",), ("broker", "--memory")], ids=" ".join
)
def test_a_signal_early_in_a_start_ends_it_in_order(arguments: tuple[str, ...], shop: Path) -> None:
    """A few of the moments above."""
    check(arguments, shop, (0, 100, 400))


def check(arguments: tuple[str, ...], folder: Path, steps_ms: Sequence[int]) -> None:
    ended = []
    for first in range(0, len(steps_ms), AT_ONCE):
        with ExitStack() as stack:
            group = [(step, started(folder, arguments)) for step in steps_ms[first : first + AT_ONCE]]
            for _, process in group:
                stack.callback(process.kill)
            began = time.monotonic()
            for step, process in group:
                time.sleep(max(0.0, began + step / 1000 - time.monotonic()))  # the moment is what is tested
                process.send_signal(signal.SIGTERM)
            for step, process in group:
                output, _ = process.communicate()
                last = output.splitlines()[-1:] if "broker" not in arguments else []
                ended.append((step, process.returncode, last))
    expected = [] if "broker" in arguments else ["drained: handled=0 retried=0 dead=0 left=0"]
    assert [] == [each for each in ended if each[1:] != (0, expected)]


def test_a_second_signal_during_a_start_leaves_at_once(shop: Path) -> None:
    (shop / "shop.py").write_text(f"import time\nprint('importing', flush=True)\ntime.sleep(3600)\n{SHOP}")
    with command("run", folder=shop) as running:
        running.until("importing")

        def pressed_again() -> bool:
            running.process.send_signal(signal.SIGINT)
            return running.process.poll() is not None

        running.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert running.process.poll() is None
        wait_until(pressed_again, "the end", pause_s=0.2)  # two that are heard in one moment are one wish and its echo
        assert 130 == running.end(None)


def test_a_signal_ends_other_commands_as_any_tool(shop: Path) -> None:
    (shop / "shop.py").write_text(f"import time\nprint('importing', flush=True)\ntime.sleep(3600)\n{SHOP}")
    with command("check", folder=shop) as running:
        running.until("importing")
        assert -signal.SIGTERM == running.end(signal.SIGTERM)


@pytest.mark.parametrize("arguments", [("run",), ("run", "--workers", "2"), ("broker", "--memory")], ids=" ".join)
def test_signals_that_used_to_kill_tell_or_do_nothing(
    arguments: tuple[str, ...], shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    errors = Errors(capfd)
    with command("broker", "--memory", folder=shop) as box:
        address = box.until("broker: ready").split("namesrv=")[1].split()[0]
        server = () if "broker" in arguments else ("--name-server", address)
        with command(*arguments, *server, folder=shop) as running:
            if "broker" in arguments:
                running.until("broker: ready")
            else:
                errors.until(running, "queue positioned")
                running.until("ready: ")  # which a parent says when it has heard it of all
            for number in (signal.SIGUSR2, signal.SIGALRM, signal.SIGUSR1):
                running.process.send_signal(number)
            errors.until(running, "tasks ")
            errors.until(running, "thread MainThread")
            if "broker" not in arguments:
                errors.until(running, "snapshot ")
                errors.until(running, "orders")
            assert 0 == running.end()
        assert 0 == box.end()
