"""Signals at every moment of a start: it ends in order, with its last line and 0, and never by the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.processes import ROOT, Command, command

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
    check(arguments, shop, (0, 50, 150, 300, 600))


def check(arguments: tuple[str, ...], folder: Path, steps_ms: Sequence[int]) -> None:
    ended = []
    for first in range(0, len(steps_ms), AT_ONCE):
        group = [(step, started(folder, arguments)) for step in steps_ms[first : first + AT_ONCE]]
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
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.2)  # two in one moment are an echo of the same wish
        assert 130 == running.end(signal.SIGINT)


def test_a_signal_ends_other_commands_as_any_tool(shop: Path) -> None:
    (shop / "shop.py").write_text(f"import time\nprint('importing', flush=True)\ntime.sleep(3600)\n{SHOP}")
    with command("check", folder=shop) as running:
        running.until("importing")
        assert -signal.SIGTERM == running.end(signal.SIGTERM)


@pytest.mark.parametrize("arguments", [("run",), ("run", "--workers", "2"), ("broker", "--memory")], ids=" ".join)
def test_signals_that_used_to_kill_tell_or_do_nothing(
    arguments: tuple[str, ...], shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = ""

    def until(text: str, running: Command) -> None:
        nonlocal said
        while text not in said:
            assert running.process.poll() is None, said
            time.sleep(0.05)  # between two looks at another process
            said += capfd.readouterr().err

    with command("broker", "--memory", folder=shop) as box:
        address = box.until("broker: ready").split("namesrv=")[1].split()[0]
        server = () if "broker" in arguments else ("--name-server", address)
        with command(*arguments, *server, folder=shop) as running:
            if "broker" in arguments:
                running.until("broker: ready")
            else:
                until("queue positioned", running)
                time.sleep(0.3)  # the parent hears of it
            for number in (signal.SIGUSR2, signal.SIGALRM, signal.SIGUSR1):
                running.process.send_signal(number)
            until("tasks ", running)
            assert "thread MainThread" in said
            if "broker" not in arguments:
                until("snapshot ", running)
                assert "orders" in said
            assert 0 == running.end()
        assert 0 == box.end()
