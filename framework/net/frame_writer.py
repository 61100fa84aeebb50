"""FrameWriter: a channel's way out: the frames of one turn of the loop in one write, and requests that wait for room.

When answers arrive together, so do the next pulls, and a system call costs more than all the rest of a pull.
"""

from __future__ import annotations

import asyncio
from collections import deque

from framework.errors import RequestTimedOut
from framework.net.channel_timer import ChannelTimer
from framework.ports import Pipe
from framework.wire.codes import request_name

LARGE_BYTES = 64 * 1024  # a copy of so many bytes costs as much as the system call that it saves

GATHERED_MAX = 64


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
