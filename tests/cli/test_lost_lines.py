"""Whatever becomes of stdout and stderr, messages are handled, and the code says how consuming ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.processes import ROOT, Command
from tests.cli.test_unconfirmed import SETTINGS, send

SHOP = """
import asyncio
import logging
from pathlib import Path

import structlog

from framework import Message, consumer


@consumer("orders", "billing")
async def bill(order: Message) -> None:
    for number in range(1000):
        print("printed", "x" * 100)
        structlog.get_logger().info("logged", number=number)
        logging.getLogger("shop").warning("bridged")
    Path("began").touch()
    while not Path("release").exists():
        await asyncio.sleep(0.02)
        structlog.get_logger().info("tick")
    Path("ended").touch()
"""
# A shell redirects as users do; `exec` lets the test signal the command itself.
WAYS = {
    "stderr closed": "exec {command} 2>&- >out",
    "stdout closed": "exec {command} 2>err >&-",
    "all closed": "exec {command} <&- >&- 2>&-",
    "log disk full": "exec {command} 2>/dev/full >out",
    "stdout full": "exec {command} >/dev/full 2>err",
    "log reader gone": "exec {command} >out 2> >(head -1 >/dev/null)",
    "stdout reader gone": "exec {command} 2>err > >(head -1 >/dev/null)",
    "log reader stopped": "exec {command} >out 2> >(exec sleep 3600)",
}


SELDOM = [("stdout closed", "--json"), ("stdout reader gone", "--json"), ("log disk full", "--workers 2"),
          ("log reader gone", "--workers 2")]  # fmt: skip
"""What stands for itself in another case already; `make slow PART=consuming_goes_on`."""
CASES = [
    *((way, "") for way in WAYS),
    *((way, "--json") for way in ("stdout closed", "stdout full", "stdout reader gone")),
    *((way, "--workers 2") for way in ("all closed", "log disk full", "log reader gone", "log reader stopped")),
]


@pytest.mark.parametrize(
    ("way", "options"),
    [pytest.param(*case, marks=[pytest.mark.slow] if case in SELDOM else []) for case in CASES],
)
def test_consuming_goes_on_and_ends_in_order(way: str, options: str, tmp_path: Path, box: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    send(box)
    words = [sys.executable, "-m", "framework", "run", "--name-server", box, options]
    process = subprocess.Popen(
        ["bash", "-c", WAYS[way].format(command=" ".join(words))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        text=True,
    )
    try:
        Command(process).wait_until((tmp_path / "began").exists, "its handler began")
        process.send_signal(signal.SIGINT)
        (tmp_path / "release").touch()
        assert 0 == process.wait()
        assert (tmp_path / "ended").exists(), "it was drained"
        if (out := tmp_path / "out").exists():
            # With two members it may be given to both, while they share the queues.
            last = out.read_text().splitlines()[-1]
            assert re.fullmatch(r"drained: handled=[12] retried=0 dead=0 left=0", last), last
        if (err := tmp_path / "err").exists():
            assert "Traceback" not in err.read_text()
    finally:
        with suppress(ProcessLookupError):  # else who reads it goes on
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("line", ["config explain | head -1", "config schema >&-", "check 2>&-"])
def test_other_commands_end_quietly_when_nobody_reads_them(line: str, tmp_path: Path) -> None:
    name, _, rest = line.partition(" ")
    full = f"set -o pipefail; {sys.executable} -m framework {name} {rest}"
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    ended = subprocess.run(
        ["bash", "-c", full],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )

    assert 0 == ended.returncode
    assert b"Traceback" not in ended.stderr
    assert b"Error" not in ended.stderr
