"""The lines of a file or a pipe, for who has something else to do until the next one is there.

A pipe may be silent for hours (`tail --follow | send`): then nothing else stands still, and Ctrl-C is heard.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from typing import IO

CHUNK_BYTES = 64 * 1024
LINE_BYTES_MAX = 32 * 1024 * 1024
"""A body of 4 MiB, each of whose bytes JSON writes as six signs, has room."""


class LineTooLong(ValueError):
    """More than a message can be, or no lines at all."""


class InputLines:
    """One after the other, each with its line end; b"" behind the last one."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._pipe, self.size = _kind_of(source)
        self._kept = bytearray()
        self._at = 0
        self._is_over = False
        self.number = 0
        """Of the line that was taken last, from 1."""
        self.done = 0
        """Bytes of the lines that were taken."""

    @property
    def is_ready(self) -> bool:
        """Whether something can be read now."""
        if self._pipe is None or self._is_over or self._kept.find(b"\n", self._at) >= 0:
            return True
        return bool(select.select([self._pipe], [], [], 0)[0])

    async def take(self) -> bytes:
        """The next line, when there is one."""
        while (end := self._kept.find(b"\n", self._at)) < 0 and not self._is_over:
            if len(self._kept) - self._at > LINE_BYTES_MAX:
                raise LineTooLong(f"longer than {LINE_BYTES_MAX} bytes; write one message a line")
            await self._more()
        end = len(self._kept) if end < 0 else end + 1
        line, self._at = bytes(self._kept[self._at : end]), end
        self.number += bool(line)
        self.done += len(line)
        return line

    async def _more(self) -> None:
        del self._kept[: self._at]
        self._at = 0
        if self._pipe is not None and not self.is_ready:
            await _readable(self._pipe)
        data = self._source.read1(CHUNK_BYTES)  # type: ignore[attr-defined]  # of whatever is opened "rb"
        self._is_over = not data
        self._kept += data


async def _readable(pipe: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pipe)


def _kind_of(source: IO[bytes]) -> tuple[int | None, int | None]:
    """The number of a pipe or a terminal, which may be silent; else the size of a file."""
    try:
        number = source.fileno()
        found = os.fstat(number)
    except OSError:
        return None, None
    if stat.S_ISREG(found.st_mode):
        return None, found.st_size
    is_silent = stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) or os.isatty(number)
    return number if is_silent else None, None
