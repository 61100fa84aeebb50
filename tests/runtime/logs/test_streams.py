"""Streams of a command: whatever stands at the other end, writing neither fails nor takes long, and losses are told."""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.runtime.logs import streams
from framework.runtime.logs.lines import Lines
from tests.patience import PATIENCE_S, wait_until


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


@pytest.fixture(autouse=True)
def no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_ALL", [])
    monkeypatch.setattr(streams, "_stalled", {})


def stream_to(descriptor: int) -> tuple[io.TextIOWrapper, streams.SureRaw]:
    raw = streams.SureRaw(descriptor, "stderr")
    return io.TextIOWrapper(io.BufferedWriter(raw), "ascii", "backslashreplace", line_buffering=True), raw


def test_a_reader_that_went_away_costs_the_lines_alone(pipe: tuple[int, int]) -> None:
    stream, raw = stream_to(pipe[1])
    os.close(pipe[0])

    stream.write("one\n")
    stream.write("two\nthree\n")
    assert (3, True) == (streams.lost_lines(), raw.is_unheard)
    assert streams.is_unheard(stream)
    assert [] == list(streams.news()), "it will never work again"


def read_all(descriptor: int, holds: Callable[[bytes], bool]) -> bytes:
    """What comes, until that is so."""
    read = b""
    while not holds(read):
        assert select.select([descriptor], [], [], PATIENCE_S)[0], f"no more comes behind {read[-40:]!r}"
        read += os.read(descriptor, 1 << 20)
    return read


def test_lines_for_a_reader_that_stops_wait_for_it(pipe: tuple[int, int]) -> None:
    """More than a pipe takes: whoever logs goes on at once, and nothing is lost, torn or out of order."""
    stream, _ = stream_to(pipe[1])
    lines = Lines(stream)
    said = [f"{number:09}" + "x" * 990 for number in range(500)]
    for text in said:
        lines.info(text)
    lost = streams.lost_lines()
    read = read_all(pipe[0], lambda read: read.count(b"\n") >= len(said))
    wait_until(lambda: not streams._stalled, "nothing waits any more")
    lines.info("at once")

    assert 0 == lost
    assert said == read.decode().splitlines()
    assert b"at once\n" == os.read(pipe[0], 1 << 20)


def test_what_does_not_fit_is_lost_counted_and_said_once_when_it_reads_again(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "WAITING_MAX", 20_000)
    stream, _ = stream_to(pipe[1])
    lines, written = Lines(stream), 0
    while not streams.lost_lines():
        lines.info(f"{written:09}" + "x" * 990)
        written += 1
    for _ in range(50):
        lines.info("lost" * 1000)
    lost = streams.lost_lines()
    read = read_all(pipe[0], lambda read: read.count(b"\n") >= written - 1)
    wait_until(lambda: not streams._stalled, "nothing waits any more")
    with capture_logs() as said:
        lines.info("heard")
        lines.info("heard, too")
    read += os.read(pipe[0], 1 << 20)

    assert 51 == lost
    assert [
        {"stream": "stderr", "count": 51, "reason": "nobody reads it", "event": "lines lost", "log_level": "warning"}
    ] == said
    whole = [line for line in read.decode().splitlines() if len(line) == 999]
    assert written - 1 == len(whole)
    assert ["heard", "heard, too"] == read.decode().splitlines()[-2:]


def test_a_reader_that_goes_while_lines_wait_costs_them_alone(pipe: tuple[int, int]) -> None:
    stream, raw = stream_to(pipe[1])
    for number in range(200):
        stream.write(f"{number:09}" + "x" * 990 + "\n")
    os.close(pipe[0])
    wait_until(lambda: raw.is_unheard, "its thread has seen it")
    wait_until(lambda: not streams._stalled, "nothing waits any more")
    waited = streams.lost_lines()
    stream.write("one more\n")

    assert waited > 100
    assert waited + 1 == streams.lost_lines()
    assert [] == list(streams.news()), "it will never work again"


ENDS = """
import os, sys
from framework.runtime.logs import streams
streams.make_sure()
for number in range(300):
    print(f"{number:03} " + "x" * 1019)  # so that no piece ends within a line
sys.stdout.flush()
assert streams._stalled, "nobody reads yet"
child = os.fork()
print("child" if not child else "parent")
sys.stdout.flush()
if child:
    os.kill(os.getppid(), {signal})
    os.waitpid(child, 0)
"""


def test_the_end_of_a_process_waits_for_a_reader_that_reads_again_and_a_child_writes_none_of_its_parent_s() -> None:
    """Whoever reads begins when both have written all that they have to say."""
    told = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: told.set())
    try:
        program = ENDS.replace("{signal}", str(int(signal.SIGUSR1)))
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            wait_until(told.is_set, "it has written all")
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert 0 == process.returncode
    assert [f"{number:03}" for number in range(300)] == [line[:3] for line in lines if line[0].isdigit()]
    assert ["child", "parent"] == sorted(line for line in lines if not line[0].isdigit())


def test_the_end_of_a_process_waits_no_longer_than_that_for_one_that_does_not(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []

    def wait(_: object, timeout: float | None = None) -> bool:
        waited.append(timeout)
        return False

    stream, _ = stream_to(pipe[1])
    stream.write("x" * 200_000 + "\n")
    monkeypatch.setattr(threading.Event, "wait", wait)
    streams.finish()

    assert [streams.EXIT_SECONDS["stderr"]] == waited


def test_a_patient_stream_loses_nothing_to_a_reader_that_stops(pipe: tuple[int, int]) -> None:
    """`tail orders --json | less`: it waits as long as that takes, and nobody else waits for it."""
    raw = streams.SureRaw(pipe[1], "stdout", is_patient=True)
    text = b"".join(b"%09d\n" % number for number in range(30_000))  # more than any pipe takes at once
    writing = threading.Thread(target=raw.write, args=(text,))
    writing.start()

    read = b""
    while len(read) < len(text):
        read += os.read(pipe[0], 1 << 20)
    writing.join()
    assert text == read
    assert 0 == streams.lost_lines()


def test_what_another_process_made_non_blocking_is_waited_for(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    stream, _ = stream_to(pipe[1])
    stream.write("x" * 200_000 + "\n")
    stream.write("next\n")

    read = read_all(pipe[0], lambda read: read.endswith(b"next\n"))
    assert (0, b"x" * 200_000 + b"\nnext\n") == (streams.lost_lines(), read)


def test_a_disk_that_was_full_takes_lines_again(monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]) -> None:
    stream, _ = stream_to(pipe[1])
    lines, real = Lines(stream), os.write

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    lines.info("lost")
    monkeypatch.setattr(os, "write", real)
    with capture_logs() as said:
        lines.info("kept")

    assert b"kept\n" == os.read(pipe[0], 1 << 20)
    assert [("lines lost", 1, "No space left on device")] == [
        (each["event"], each["count"], each["reason"]) for each in said
    ]


def test_what_the_terminal_cannot_show_is_written_all_the_same(pipe: tuple[int, int]) -> None:
    stream, _ = stream_to(pipe[1])
    stream.write("größe \udc80\n")

    assert b"gr\\xf6\\xdfe \\udc80\n" == os.read(pipe[0], 1 << 20)


class Breaks:
    """Somebody's own stream."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.texts: list[str] = []

    def write(self, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.texts.append(text)

    def flush(self) -> None: ...


@pytest.mark.parametrize(
    "error", [BrokenPipeError(32, "Broken pipe"), ValueError("I/O operation on closed file"), AttributeError("write")]
)
def test_a_stream_of_somebody_s_own_may_fail_too(error: Exception) -> None:
    target = Breaks(error)
    lines = Lines(target)
    lines.info("lost")
    target.error = None
    with capture_logs() as said:
        lines.info("kept")

    assert (1, ["kept\n"]) == (streams.lost_lines(), target.texts)
    assert ["lines lost"] == [each["event"] for each in said]


CLOSED = """
import os
from framework.runtime.logs import streams
streams.make_sure()
opened = os.open(os.devnull, os.O_RDONLY)
print("a line of somebody's", flush=True)
import sys
print("another", file=sys.stderr)
os._exit(opened * 10 + streams.lost_lines())
"""


@pytest.mark.parametrize(("expected", "closing"), [(30, ""), (31, "1"), (31, "2"), (32, "0 1 2"), (30, "0")])
def test_descriptors_that_are_closed_are_nobody_else_s(expected: int, closing: str) -> None:
    """The next file or socket would get the number, and lines would be written into it."""
    closes = "".join(f"os.close({number}); " for number in closing.split())
    program = f"import os, sys; {closes}os.execv(sys.executable, [sys.executable, '-c', {CLOSED!r}])"
    kept: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    assert expected == subprocess.run([sys.executable, "-c", program], check=False, **kept).returncode
