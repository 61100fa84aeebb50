"""AnswerWriter: answers of one turn of the loop in one write, and peers that do not read theirs.

A commit answers all who shared it, and a system call costs as much as a third of a send. More than the transport would
hold by itself is not collected, so that what nobody reads is seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from framework.net.channel_timer import ChannelTimer
from framework.net.frame_writer import FrameWriter

COLLECTED_BYTES_MAX = 64 * 1024
UNREAD_SECONDS = 30.0  # in which somebody who is behind has to take in something


class Behind(Protocol):
    """Who has not taken in their answers, of all connections together."""

    behind: dict[AnswerWriter, None]

    def look_at_unread(self) -> None: ...


class AnswerWriter(FrameWriter):
    """Of one accepted connection, which `abort` ends."""

    def __init__(
        self, timer: ChannelTimer, house: Behind, abort: Callable[[str], None], *, unsent_bytes_max: int
    ) -> None:
        super().__init__(timer)
        self._house, self.abort, self._unsent_bytes_max = house, abort, unsent_bytes_max
        self._collected_bytes = 0
        self._written = self._taken_in = 0
        self._behind_timer: asyncio.TimerHandle | None = None

    def collect(self, frame: bytes) -> None:
        if not self.frames:
            self._loop.call_soon(self.flush)
        self.frames.append(frame)
        self._collected_bytes += len(frame)
        if self._collected_bytes >= COLLECTED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        frames, self.frames = self.frames, []
        self._collected_bytes = 0
        if frames and not self.has_ended:
            self.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def write(self, data: bytes) -> None:
        self._written += len(data)
        super().write(data)
        if self.is_paused and not self.has_ended:
            # Without this one: an answer, however large, is no reason to cut off who has read all before it.
            if self.unread_bytes - len(data) > self._unsent_bytes_max:
                most = self._unsent_bytes_max
                self.abort(f"{self.unread_bytes} bytes wait to be read by the peer, more than {most}")
            else:
                self._house.look_at_unread()

    @property
    def unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def pause(self) -> None:
        super().pause()
        if self.has_ended:
            return
        self._house.behind[self] = None
        self._taken_in = self._written - self.unread_bytes
        if self._behind_timer is None:
            self._behind_timer = self._loop.call_later(UNREAD_SECONDS, self._look_behind)

    def _look_behind(self) -> None:
        self._behind_timer = None
        if not self.is_paused or self.has_ended:
            return
        before, self._taken_in = self._taken_in, self._written - self.unread_bytes
        if self._taken_in <= before:
            self.abort(f"took in nothing of its answers for {UNREAD_SECONDS:g} s")
        else:
            self._behind_timer = self._loop.call_later(UNREAD_SECONDS, self._look_behind)

    def resume(self) -> None:
        self._house.behind.pop(self, None)
        super().resume()

    def end(self) -> None:
        super().end()
        if self._behind_timer is not None:
            self._behind_timer.cancel()
