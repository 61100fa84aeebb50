"""With `--json` stdout carries JSON alone, whatever handlers print and by which way; and `ready` is said once."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.processes import Errors, command
from tests.cli.test_unconfirmed import send

Capture = pytest.CaptureFixture[str]
LOUD = """
import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

from framework import Message, consumer

print("printed at import")


@consumer("orders", "billing")
def bill(order: Message) -> None:
    print("printed")
    print('{"event": "stopped", "handled": 9}')
    sys.__stdout__.write("by the stream that was\\n")
    sys.__stdout__.flush()
    printing = threading.Thread(target=print, args=("by a thread",))
    printing.start()
    printing.join()
    os.write(1, b"by descriptor\\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"by C")
    libc.fflush(None)
    subprocess.run(["echo", "by a process"], check=True)
    print("without an end", end="")
"""
SAID = (
    "printed at import", "printed", "by the stream that was", "by a thread", "by descriptor", "by C", "by a process",
    "without an end",
)  # fmt: skip


@pytest.fixture(autouse=True)
def loud(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    (tmp_path / "framework-app.yaml").write_text("app: {handlers: [loud]}\nconsumers: {billing: {start: first}}\n")


@pytest.mark.parametrize("way", [("run",), ("run", "--workers", "2"), ("dev",)], ids=" ".join)
def test_stdout_is_json_alone_and_what_is_printed_goes_to_stderr(
    way: tuple[str, ...], tmp_path: Path, box: str, capfd: Capture
) -> None:
    errors = Errors(capfd)
    send(box)
    with command(*way, "--json", "--name-server", box, folder=tmp_path) as running:
        running.line()
        errors.until(running, '"event": "ready"')
        assert 0 == running.end(signal.SIGINT)

    events, said = [json.loads(line) for line in running.lines], errors.read()
    assert ["stopped"] == sorted({event["event"] for event in events} - {"handled"})
    assert "stopped" == events[-1]["event"]
    assert 1 == said.count('"event": "ready"')
    ready, _ = json.JSONDecoder().raw_decode(said[said.index('{"event": "ready"') :])
    assert [box] == ready["name_servers"]
    assert [("orders", "billing", "bill")] == [
        (each["topic"], each["group"], each["handler"]) for each in ready["consumers"]
    ]
    handled = [event for event in events if event["event"] == "handled"]
    assert len(handled) == events[-1]["handled"] >= 1
    assert all(("worker" in event) is ("--workers" in way) for event in handled)
    assert [] == [each for each in SAID if each not in said]


def test_without_json_what_is_printed_stays_on_stdout_and_is_no_event(tmp_path: Path, box: str) -> None:
    """Also what looks as if the framework had said it."""
    with command("dev", "--name-server", box, folder=tmp_path) as running:
        running.until(f"ready: namesrv={box}")
        send(box)
        running.until('{"event": "stopped", "handled": 9}')
        running.until("without an end")
        assert 0 == running.end(signal.SIGINT)

    assert "drained: handled=1 retried=0 dead=0 left=0" == running.lines[-1]
    assert {*SAID[:-1]} <= {*running.lines}


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=" ".join)
def test_run_says_ready_once(options: tuple[str, ...], tmp_path: Path, box: str) -> None:
    with command("run", *options, "--name-server", box, folder=tmp_path) as running:
        running.until(f"ready: namesrv={box}")
        assert 0 == running.end(signal.SIGTERM)

    assert 1 == sum(line.startswith("ready") for line in running.lines)


def test_each_line_of_a_worker_has_its_number(tmp_path: Path, box: str, capfd: Capture) -> None:
    """The library's and a handler's own; and what all of them would say, one says."""
    (tmp_path / "loud.py").write_text(
        "import logging\nfrom framework import Message, consumer\n"
        "@consumer('orders', 'billing')\ndef bill(order: Message): logging.warning('by a handler')\n"
    )
    errors = Errors(capfd)
    with command("run", "--workers", "2", "--name-server", box, folder=tmp_path) as running:
        running.until("ready: ")
        send(box)
        errors.until(running, "by a handler")
        assert 0 == running.end(signal.SIGTERM)

    lines = [line for line in errors.read().splitlines() if " [" in line]
    assert [] == [line for line in lines if "worker=" not in line and "handlers awaited" not in line]
    for number in range(2):
        assert any("app started" in line and f"worker={number}" in line for line in lines)
    assert 1 == sum("settings loaded" in line for line in lines)
    assert 1 == sum("consumer configured" in line for line in lines)
