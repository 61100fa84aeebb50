"""Streams of a command: whatever stands at the other end, writing neither fails nor takes long, and losses are told."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.runtime.logs import streams
from framework.runtime.logs.lines import Lines


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


def stream_to(descriptor: int, patience: float = 0.01) -> tuple[io.TextIOWrapper, streams.SureRaw]:
    raw = streams.SureRaw(descriptor, "stderr", patience)
    return io.TextIOWrapper(io.BufferedWriter(raw), "ascii", "backslashreplace", line_buffering=True), raw


def test_a_reader_that_went_away_costs_the_lines_alone(pipe: tuple[int, int]) -> None:
    stream, raw = stream_to(pipe[1])
    os.close(pipe[0])

    stream.write("one\n")
    stream.write("two\nthree\n")
    assert (3, True) == (streams.lost_lines(), raw.is_unheard)
    assert streams.is_unheard(stream)
    assert [] == list(streams.news()), "it will never work again"


def test_a_reader_that_stops_is_waited_for_once_and_told_of_what_it_missed(pipe: tuple[int, int]) -> None:
    """Nothing blocks, lines are whole, and the losses are said once when it reads again."""
    stream, _ = stream_to(pipe[1])
    lines = Lines(stream)
    written = 0
    while not streams.lost_lines():
        lines.info(f"{written:09}" + "x" * 990)
        written += 1
    for _ in range(50):
        lines.info("lost")
    lost = streams.lost_lines()
    read = os.read(pipe[0], 1 << 20)
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


def test_a_patient_stream_loses_nothing_to_a_reader_that_stops(pipe: tuple[int, int]) -> None:
    """`tail orders --json | less`: it waits as long as that takes, and nobody else waits for it."""
    raw = streams.SureRaw(pipe[1], "stdout", None)
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

    assert 1 == streams.lost_lines()
    os.read(pipe[0], 1 << 20)
    stream.write("next\n")
    assert b"\nnext\n" == os.read(pipe[0], 1 << 20), "what was torn does not run into the next line"


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
