"""FrameWriter: a channel's way out: the frames of one turn of the loop in one write, and requests that wait for room.

When answers arrive together, so do the next pulls, and a system call costs more than all the rest of a pull. Accepted
connections have an AnswerWriter: a commit answers all who shared it. More than a transport would hold by itself is not
collected, so that a peer is seen that does not read its answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from framework.errors import RequestTimedOut
from framework.net.channel_timer import ChannelTimer
from framework.ports import Pipe
from framework.wire.codes import request_name

if TYPE_CHECKING:
    from framework.net.shared_limits import SharedLimits

LARGE_BYTES = 64 * 1024  # a copy of so many bytes costs as much as the system call that it saves

GATHERED_MAX = 64
COLLECTED_BYTES_MAX = 64 * 1024
UNREAD_SECONDS = 30.0  # in which somebody who is behind has to take in something


class FrameWriter:
    """Writes to `transport`, once there is one, until `end`."""

    transport: Pipe

    def __init__(self, timer: ChannelTimer) -> None:
        self._timer = timer
        self._loop = asyncio.get_running_loop()
        self.is_paused = False
        """The peer reads too slowly."""
        self.has_ended = False
        self.frames: list[bytes] = []
        """Ready-made frames of this turn of the loop."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def collect(self, frame: bytes) -> None:
        """Write this at the end of the turn, with all others of it; a large one at once, since joining copies it."""
        if not self.frames:
            if len(frame) >= LARGE_BYTES:
                self.transport.write(frame)
                return
            self._loop.call_soon(self.flush)
        self.frames.append(frame)
        if len(frame) >= LARGE_BYTES:
            self.flush()

    def gather(self, frame: bytes) -> None:
        """The same for one that nobody waits for, so that thousands of them may come without a turn of the loop."""
        self.collect(frame)
        if len(self.frames) >= GATHERED_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what this turn has collected; before anything else is written, or it would overtake."""
        frames, self.frames = self.frames, []
        if frames and not self.has_ended:
            self.transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def write(self, data: bytes) -> None:
        self._timer.written_at = self._loop.time()
        self.flush()
        if not self.transport.is_closing():  # asyncio has a line of the log for each write behind a connection's end
            self.transport.write(data)

    async def room(self, code: int, peer: str, timeout_ms: int) -> int:
        """Wait while the peer reads too slowly, or until the end; answers how much of the time-out is left."""
        loop = self._loop
        until = loop.time() + timeout_ms / 1000
        while self.is_paused and not self.has_ended:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout_at(until):
                    await turn
            except TimeoutError:
                raise RequestTimedOut(
                    f"{request_name(code)}: {peer} took in no bytes for {timeout_ms} ms; nothing was sent"
                ) from None
        return max(1, int((until - loop.time()) * 1000))

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def end(self) -> None:
        """Nothing more is written; whoever waited for room finds the channel closed."""
        self.has_ended = True
        self.resume()


class AnswerWriter(FrameWriter):
    """Of one accepted connection, which `abort` ends."""

    def __init__(
        self, timer: ChannelTimer, shared: SharedLimits, abort: Callable[[str], None], *, unsent_bytes_max: int
    ) -> None:
        super().__init__(timer)
        self._shared, self.abort, self._unsent_bytes_max = shared, abort, unsent_bytes_max
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
                self._shared.look_at_unread()

    @property
    def unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def pause(self) -> None:
        super().pause()
        if self.has_ended:
            return
        self._shared.behind[self] = None
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
        self._shared.behind.pop(self, None)
        super().resume()

    def end(self) -> None:
        super().end()
        if self._behind_timer is not None:
            self._behind_timer.cancel()
