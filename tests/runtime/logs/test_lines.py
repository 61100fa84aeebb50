"""Lines of a log: whole, and no fork hangs at them, whatever another thread was writing."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest

from framework.net import forks
from framework.runtime.logs.lines import Lines
from tests.patience import PATIENCE_S

WRITES_ALL_THE_TIME = """
import os, sys, threading, time
import structlog
from framework.net import forks
from framework.runtime.logs.lines import Lines

class Slow:
    def write(self, text):
        writing.set()
        time.sleep(PAUSE)
    def flush(self): ...

writing = threading.Event()
structlog.configure(logger_factory=lambda *_: logger, cache_logger_on_first_use=False)

def write():
    while True:
        structlog.get_logger().info("busy")

def forked(act):
    threading.Thread(target=write, daemon=True).start()
    writing.wait()
    child = os.fork()
    if not child:
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def run(program: str, **constants: object) -> subprocess.CompletedProcess[str]:
    text = "\n".join(f"{name} = {value!r}" for name, value in constants.items()) + WRITES_ALL_THE_TIME + program
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_lines_of_many_threads_are_whole() -> None:
    stream, texts = io.StringIO(), [f"{number:04} " + "x" * 200 for number in range(4)]
    lines = Lines(stream)

    def write(text: str) -> None:
        for _ in range(200):
            lines.info(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts * 200) == sorted(stream.getvalue().splitlines())


@pytest.mark.parametrize("pause_s", [0.1, 3.0])
def test_a_child_that_is_forked_while_another_thread_writes_may_log(pause_s: float) -> None:
    """Also where the fork has waited long enough: whoever reads the lines may have stopped."""
    done = run("logger = Lines(Slow())\nsys.exit(forked(lambda: Lines(sys.stdout).info('said')))", PAUSE=pause_s)

    assert (0, "said\n", "") == (done.returncode, done.stdout, done.stderr)


LEAVES = """
logger = structlog.PrintLogger(Slow())
sys.exit(forked(lambda: forks.leave("the application", os.getppid())))
"""


def test_a_child_that_goes_on_where_it_may_not_ends_though_the_logger_s_lock_is_taken() -> None:
    """structlog's own printer, as long as nobody has configured it."""
    done = run(LEAVES, PAUSE=30.0)

    assert forks.LEAVE == done.returncode, done.stderr
    assert done.stderr.startswith("forked child ended: the application belongs to process ")


def test_it_ends_though_nobody_reads_what_it_would_say() -> None:
    full = """
unread, full = os.pipe()
os.set_blocking(full, False)
try:
    while os.write(full, bytes(4096)): ...
except BlockingIOError:
    os.set_blocking(full, True)
os.dup2(full, 2)
"""
    assert forks.LEAVE == run(full + LEAVES, PAUSE=30.0).returncode


def test_it_ends_though_the_logger_itself_fails() -> None:
    fails = """
def failing(*_):
    raise OSError("the disk is full")
structlog.configure(processors=[failing])
forks.leave("the application", os.getppid())
"""
    done = run(fails, PAUSE=0.0)

    assert forks.LEAVE == done.returncode, done.stderr
    assert "forked child ended: the application belongs to process " in done.stderr
