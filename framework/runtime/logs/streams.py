"""Streams: stdout and stderr of a command, which never fail and never block for long, whatever they lead to.

A reader that went away, a full disk, a closed descriptor: the line is lost and counted, and consuming goes on. A reader
that stays and stops reading is waited for once, within a limit; from then on lines are lost until it reads again. A
command that consumes nothing waits for its reader for ever, as any tool does. It knows nothing of what the lines say.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

PATIENCE_SECONDS = {"stdout": 5.0, "stderr": 1.0}
"""Once, when its reader stops reading; the event loop stands for so long."""
PIECE = 4096  # what a pipe that has room at all takes whole (PIPE_BUF)
TRIES = 10


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


class SureRaw(io.RawIOBase):
    """The lowest layer of a stream: says of everything that it was written."""

    def __init__(self, descriptor: int, name: str, patience_seconds: float | None, *, is_closed: bool = False) -> None:
        super().__init__()
        self.name = name
        self.loss = Loss(name)
        self.is_unheard = is_closed
        """Nobody reads it any more, and nobody ever will."""
        self._descriptor, self._patience = descriptor, patience_seconds
        self._out = _without_blocking(descriptor)
        self._is_stuck = self._is_torn = False
        self._turn = threading.RLock()

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]  # the buffer that BufferedWriter hands down
        size = len(view)
        with self._turn:
            text = b"\n" + bytes(view) if self._is_torn else bytes(view)
            reason = "closed" if self.is_unheard else self._put(text)
            if reason is None:
                self.loss.written()
            else:
                self.loss.lost(max(bytes(view).count(b"\n"), 1), reason)
        return size

    def _put(self, data: bytes) -> str | None:
        """Write all of it; why not, where that failed."""
        at, tries = 0, 0
        try:
            while at < len(data):
                is_over = tries == TRIES and self._patience is not None
                if is_over or not self._is_ready(0.0 if self._is_stuck else self._patience):
                    self._is_stuck, self._is_torn = True, at > 0 or self._is_torn
                    return "nobody reads it"
                try:
                    at += os.write(self._out, data[at : at + PIECE])
                    tries, self._is_stuck = 0, False
                except BlockingIOError:  # another process that shares it was quicker
                    tries += 1
        except BrokenPipeError as error:
            self.is_unheard = True
            return error.strerror
        except OSError as error:
            self._is_torn = at > 0 or self._is_torn
            return error.strerror or type(error).__name__
        self._is_torn = False
        return None

    def _is_ready(self, seconds: float | None) -> bool:
        """Whether it takes something now; files always do."""
        poll = select.poll()
        poll.register(self._out, select.POLLOUT)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

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
    patience = None if is_patient else PATIENCE_SECONDS["stdout"]
    if sys.stdout is sys.__stdout__:
        sys.stdout = _sure(sys.stdout, 1, "stdout", patience, is_closed=1 in closed or sys.stdout is None)
    if sys.stderr is sys.__stderr__:
        is_closed = 2 in closed or sys.stderr is None
        sys.stderr = _sure(sys.stderr, 2, "stderr", PATIENCE_SECONDS["stderr"], is_closed=is_closed)


def _sure(stream: TextIO | None, descriptor: int, name: str, patience: float | None, *, is_closed: bool) -> TextIO:
    raw = SureRaw(descriptor, name, patience, is_closed=is_closed)
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
    _reserved.stream = _sure(None, descriptor, "stdout", PATIENCE_SECONDS["stdout"], is_closed=False)
