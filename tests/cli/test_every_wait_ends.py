"""Every wait ends: what handlers leave behind, hold or swallow keeps no process from ending when its drain is over."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from framework.cli.exit_codes import ExitCode
from tests.cli.processes import Command, Errors, command
from tests.cli.test_workers import send

SHOP = """
import asyncio
import multiprocessing
import os
import subprocess
import threading
import time

from framework import Message, consumer


def leaves() -> bool:
    # Once: the second worker may get what the first one has not confirmed, and nobody would end what that leaves.
    try:
        open("left", "x").close()
    except FileExistsError:
        return False
    return True


async def swallow() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


def fork() -> None:
    if child := os.fork():
        print("left", child, flush=True)
    else:
        time.sleep(3600)
        os._exit(0)


def popen() -> None:
    print("left", subprocess.Popen(["sleep", "3600"]).pid, flush=True)


def process() -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    child.start()
    print("left", child.pid, flush=True)


@consumer("orders", "billing")
async def bill(order: Message) -> None:
    what = order.body.decode()
    print(f"began {what} in {os.getpid()}", flush=True)
    match what:
        case "blocks":
            time.sleep(3600)
        case "swallows":
            await swallow()
        case "waits":
            await asyncio.to_thread(time.sleep, 3600)
        case _ if what != "nothing" and not leaves():
            pass
        case "thread":
            threading.Thread(target=time.sleep, args=(3600,)).start()
        case "fork":
            fork()
        case "popen":
            popen()
        case "process":
            process()
    print("returned", flush=True)
"""
SETTINGS = """
app: {handlers: [shop], drain: 300ms}
consumers: {billing: {start: first}}
"""
HELD = {"blocks": "bill(", "swallows": "swallow(", "waits": ""}
"""The handler does not return -> what the log names."""
LEFT = ("thread", "fork", "popen", "process")
"""It returns, and leaves something behind."""
WORKERS = ("--workers", "2")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture(autouse=True)
def children() -> Iterator[list[int]]:
    """Processes that handlers have left; they are ended with the test."""
    found: list[int] = []
    yield found
    for number in found:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def begin(running: Command, what: str, box: str, children: list[int]) -> int:
    """Send it once all workers are there, and wait until the handler is where it is to be; answers its process."""
    running.until("ready: ")
    send(box, what)
    number = int(running.until(f"began {what} in ").rpartition(" ")[2])
    if what in LEFT:
        line = running.until("returned" if what == "thread" else "left ")
        children += [int(line.split()[1])] if line != "returned" else []
    return number


SELDOM = [(WORKERS, "swallows"), (WORKERS, "thread"), (WORKERS, "popen"), ((), "waits"), ((), "popen"), ((), "process")]
"""What stands for itself in another case already; `make slow PART=whatever_its`."""
CASES = [
    pytest.param(workers, what, id=f"{'workers' if workers else 'alone'}-{what}",
                 marks=[pytest.mark.slow] if (workers, what) in SELDOM else [])
    for workers in ((), WORKERS) for what in (*HELD, *LEFT)
]  # fmt: skip


@pytest.mark.parametrize(("workers", "what"), CASES)
def test_a_run_ends_whatever_its_handlers_do(
    what: str, workers: tuple[str, ...], shop: Path, box: str, children: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """It was: never, where a handler blocked the loop, swallowed its end, or had left a child or a thread."""
    send(box, "nothing")  # so that there is a topic
    errors = Errors(capfd)
    with command("run", "--name-server", box, *workers, folder=shop) as running:
        begin(running, what, box, children)
        running.process.send_signal(signal.SIGTERM)
        code = running.process.wait()
        last = running.process.stdout.read().splitlines()[-1] if what not in LEFT and running.process.stdout else ""

    assert (ExitCode.ABANDONED if what in HELD else ExitCode.CLEAN) == code
    if what in HELD:
        # Of two workers the second one may begin what the first one left, and ends in the same way.
        assert re.fullmatch(r"drained: handled=\d+ retried=0 dead=0 left=[12]", last), last
        assert "process ended" in errors.read()
        assert HELD[what] in errors.text


@pytest.mark.parametrize("what", ["blocks", "fork"])
def test_a_dev_ends_whatever_its_handlers_do(what: str, shop: Path, children: list[int]) -> None:
    with command("dev", folder=shop) as running:
        box = running.until("ready: namesrv=").partition("namesrv=")[2].split()[0]
        send(box, what)
        running.until(f"began {what} in ")
        if what in LEFT:
            children.append(int(running.until("left ").split()[1]))
        running.process.send_signal(signal.SIGTERM)
        assert (ExitCode.ABANDONED if what in HELD else ExitCode.CLEAN) == running.process.wait()


def test_a_worker_that_somebody_has_stopped_is_killed(
    shop: Path, box: str, children: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    errors = Errors(capfd)
    send(box, "nothing")
    with command("run", "--name-server", box, *WORKERS, folder=shop) as running:
        stopped = begin(running, "blocks", box, children)
        os.kill(stopped, signal.SIGSTOP)
        assert ExitCode.ABANDONED == running.end()

    (line,) = [line for line in errors.read().splitlines() if "worker killed" in line]
    assert "shop.py:" in line, "it names the handler that ran"
    assert f"process={stopped}" in line
    assert re.search("left=[12]$", running.lines[-1]), running.lines[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are new interpreters there")
def test_a_process_that_forks_workers_and_was_stopped_is_no_hindrance(shop: Path, box: str) -> None:
    send(box, "nothing")
    with command("run", "--name-server", box, *WORKERS, folder=shop) as running:
        worker = begin(running, "nothing", box, [])
        server = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(server, signal.SIGSTOP)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait() is not None
    stat = Path(f"/proc/{worker}/stat")
    assert not stat.exists() or "Z" == stat.read_text().rpartition(")")[2].split()[0], "nobody here has to reap it"
