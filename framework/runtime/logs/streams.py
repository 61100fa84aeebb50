"""Streams: stdout and stderr of a command, which never fail and never block, whatever they lead to.

A line is written at once where its stream takes it. Where the reader has stopped reading, lines wait in a queue, and a
thread writes them; what does not fit is lost and counted. So is a line for a reader that went away, a full disk or a
closed descriptor, and consuming goes on. A command that consumes nothing waits for its reader for ever, as any tool
does. It knows nothing of what the lines say.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

WAITING_MAX = 8 << 20
"""Bytes that wait for the reader of one stream: some ten thousand lines, a second of events of a busy process."""
EXIT_SECONDS = {"stdout": 5.0, "stderr": 1.0}
"""How long the end of the process waits for a reader that does not keep up."""
PIECE = 4096  # what a pipe that has room at all takes whole (PIPE_BUF)
UNREAD = "nobody reads it"


class Loss:
    """What could not be written to one stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0
        self.reason: str | None = None
        """Why the last line could not be written; None where it could."""
        self._untold, self._of_untold = 0, ""
        _ALL.append(self)

    def lost(self, lines: int, reason: str) -> None:
        self.total += lines
        self._untold += lines
        self.reason = self._of_untold = reason

    @property
    def last_reason(self) -> str:
        return self._of_untold

    def written(self) -> None:
        self.reason = None

    def news(self) -> tuple[int, str] | None:
        """How many lines were lost before writing worked again, and why; each is told once."""
        if not self._untold or self.reason is not None:
            return None
        told, self._untold = (self._untold, self._of_untold), 0
        return told


_ALL: list[Loss] = []


def lost_lines() -> int:
    """Lines that this process could not write, all streams together."""
    return sum(loss.total for loss in _ALL)


def news() -> Iterator[tuple[str, int, str]]:
    """Name, count, reason of each stream that takes lines again."""
    for loss in _ALL:
        if loss.total and (found := loss.news()) is not None:
            yield loss.name, *found


_stalled: dict[SureRaw, None] = {}
"""Streams whose lines wait."""


class SureRaw(io.RawIOBase):
    """The lowest layer of a stream: says of everything that it was written."""

    def __init__(self, descriptor: int, name: str, *, is_patient: bool = False, is_closed: bool = False) -> None:
        """`is_patient`: whoever writes waits for the reader, and no thread does."""
        super().__init__()
        self.name = name
        self.loss = Loss(name)
        self.is_unheard = is_closed
        """Nobody reads it any more, and nobody ever will."""
        self._descriptor, self._is_patient = descriptor, is_patient
        self._out = _without_blocking(descriptor)
        self._is_torn = self._has_gap = False
        self._turn = threading.RLock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_drained = threading.Event()

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]  # the buffer that BufferedWriter hands down
        text = bytes(view)
        with self._turn:
            if self.is_unheard:
                self._lost(text, "closed")
            elif self._waiting:
                self._wait(text)
            else:
                left, reason = self._put(text, waits=self._is_patient)
                if reason is not None:
                    self._lost(text, reason)
                elif left:
                    self._wait(left)
                    self._begin()
                else:
                    self.loss.written()
        return len(text)

    def _put(self, data: bytes, *, waits: bool) -> tuple[bytes, str | None]:
        """What its reader did not take of this, and why it cannot be written at all."""
        at, data = 0, b"\n" + data if self._is_torn else data
        try:
            while at < len(data):
                if not self._is_ready(waits=waits):
                    return data[at:], None
                try:
                    at += os.write(self._out, data[at : at + PIECE])
                except BlockingIOError:  # another process that shares it was quicker
                    if not waits:
                        return data[at:], None
                self._is_torn = False
        except OSError as error:
            self.is_unheard = isinstance(error, BrokenPipeError)
            self._is_torn = at > 0 or self._is_torn
            return b"", error.strerror or type(error).__name__
        return b"", None

    def _is_ready(self, *, waits: bool) -> bool:
        """Whether it takes something now; files always do."""
        poll = select.poll()
        poll.register(self._out, select.POLLOUT)
        return bool(poll.poll(None if waits else 0))

    def _lost(self, text: bytes, reason: str) -> None:
        self.loss.lost(max(text.count(b"\n"), 1), reason)

    # What waits for its reader

    def _wait(self, text: bytes) -> None:
        if self._waiting and self._waiting_bytes + len(text) > WAITING_MAX:
            self._lost(text, UNREAD)
            self._has_gap = True
            return
        if self._has_gap and not self._waiting[-1].endswith(b"\n"):
            text = b"\n" + text  # what should have come between them is lost
        self._has_gap = False
        self._waiting.append(text)
        self._waiting_bytes += len(text)

    def _begin(self) -> None:
        from framework.net.real_world import RealWatchman

        self._is_drained.clear()
        _stalled[self] = None
        try:
            RealWatchman().attend(self._serve, f"lines to {self.name}")
        except RuntimeError:  # the system has no thread left, or the interpreter is ending
            self._drop(UNREAD)

    def _serve(self) -> None:
        """On a thread, until nothing waits. Whoever writes meanwhile joins the queue."""
        while True:
            text = self._waiting[0]
            _, reason = self._put(text, waits=True)
            with self._turn:
                self._waiting.popleft()
                self._waiting_bytes -= len(text)
                if reason is not None:
                    self._lost(text, reason)
                if self.is_unheard or not self._waiting:
                    self._drop("closed")
                    return

    def _drop(self, reason: str) -> None:
        """Nothing waits any more: what is left can't be written."""
        for text in self._waiting:
            self._lost(text, reason)
        self._waiting.clear()
        self._waiting_bytes, self._has_gap = 0, False
        if not self.is_unheard and reason != UNREAD:
            self.loss.written()
        _stalled.pop(self, None)
        self._is_drained.set()

    def finish(self) -> None:
        """At the end of the process."""
        self._is_drained.wait(EXIT_SECONDS[self.name])

    def forked(self) -> None:
        """In a child: what waits is its parent's, as is the thread."""
        self._turn = threading.RLock()
        self._waiting.clear()
        self._waiting_bytes, self._has_gap = 0, False

    def move(self, descriptor: int) -> None:
        """Write there from here on, to what is the same thing by another number."""
        with self._turn:
            if self._out == self._descriptor:
                self._out = descriptor
            self._descriptor = descriptor

    def leave(self) -> None:
        """Close it here, where it is another process's."""
        with self._turn:
            self.is_unheard = True
            for descriptor in {self._out, self._descriptor}:
                os.close(descriptor)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


def _without_blocking(descriptor: int) -> int:
    """The same pipe, opened once more: what is set for one of several that share it would hold for all of them."""
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        pass
    return descriptor


def open_standard() -> frozenset[int]:
    """Have descriptors 0 to 2 be open, or the next socket or file would be taken for one of them; which were closed."""
    closed = []
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)  # noqa: FBT003 - its only form
            assert opened == descriptor, "the lowest one that is free"
            closed.append(descriptor)
    return frozenset(closed)


def make_sure(*, is_patient: bool = False) -> None:
    """Put such streams in place of this process's own. Those that somebody has put there already stay.

    A patient one waits for the reader of its stdout, however long that takes: nothing else is to be done meanwhile.
    """
    closed = open_standard()
    if sys.stdout is sys.__stdout__:
        is_closed = 1 in closed or sys.stdout is None
        sys.stdout = _sure(sys.stdout, 1, "stdout", is_patient=is_patient, is_closed=is_closed)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _sure(sys.stderr, 2, "stderr", is_closed=2 in closed or sys.stderr is None)
    atexit.register(finish)


def finish() -> None:
    """At the end of the process: readers that do not keep up have a last moment for what waits."""
    for stream in (sys.stdout, sys.stderr, _reserved.stream):
        with suppress(Exception):  # closed, or nobody's
            stream.flush()  # type: ignore[union-attr]  # as that
    for raw in list(_stalled):
        raw.finish()


def _forked() -> None:
    for raw in list(_stalled):
        raw.forked()
    _stalled.clear()


os.register_at_fork(after_in_child=_forked)


def _sure(
    stream: TextIO | None, descriptor: int, name: str, *, is_patient: bool = False, is_closed: bool = False
) -> TextIO:
    raw = SureRaw(descriptor, name, is_patient=is_patient, is_closed=is_closed)
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors="backslashreplace",  # a name that the terminal cannot show ends nothing
        line_buffering=name == "stderr" or (stream is not None and bool(getattr(stream, "line_buffering", False))),
        write_through=bool(getattr(stream, "write_through", False)),
    )


def is_unheard(stream: TextIO) -> bool:
    """Whether its reader has gone for good."""
    raw = _raw(stream)
    return raw is not None and raw.is_unheard


def _raw(stream: TextIO) -> SureRaw | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, SureRaw) else None


# Results: lines for programs, which nothing that a handler prints may come between.


class _Reserved:
    """What results go to instead of stdout; one per process, as stdout is."""

    stream: TextIO | None = None


_reserved = _Reserved()


def results() -> TextIO:
    """Where a command's results go."""
    return _reserved.stream or sys.stdout


def not_written() -> str | None:
    """Why results were lost though their reader is there, such as a full disk; None where none were."""
    stream = results()
    stream.flush()
    raw = _raw(stream)
    return raw.loss.last_reason if raw is not None and raw.loss.total and not raw.is_unheard else None


def reserve_stdout() -> None:
    """Have stdout carry results alone: whatever else is printed goes to stderr from here on.

    Descriptor 1 itself leads there, so C code and other processes that inherit it print there, too. Streams that are
    somebody else's stay as they are.
    """
    raw = _raw(sys.stdout)
    if raw is None or _reserved.stream is not None:
        return
    sys.stdout.flush()
    raw.move(os.dup(1))
    os.dup2(2, 1)
    _reserved.stream, sys.stdout = sys.stdout, sys.stderr


def leave_results() -> None:
    """In a forked process: results are its parent's. Their reader would wait for this process's end, too."""
    stream, _reserved.stream = _reserved.stream, None
    if stream is not None and (raw := _raw(stream)) is not None:
        raw.leave()


def send_results(descriptor: int) -> None:
    """Send results to a parent by this descriptor; stdout is then for what handlers print."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
    _reserved.stream = _sure(None, descriptor, "stdout")
