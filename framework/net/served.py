"""Served: an accepted connection, which is served in turns, and what all of them together may hold.

Bytes that came in wait until it is their turn; meanwhile no more are read. Who does not take in his answers is not
served either, and a connection that was cut is served nothing more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import structlog

from framework.errors import ProtocolError
from framework.net.channel import Answered, Channel
from framework.net.turns import Turns
from framework.wire.codes import ResponseCode
from framework.wire.command import Excessive, RemotingCommand

Work: TypeAlias = Generator[None, None, None]

log = structlog.get_logger()

COLLECTED_BYTES_MAX = 64 * 1024
# Of each connection, each time that the loop looks around; less where many send large frames, so that it looks often.
READ_BYTES_MAX, READ_BYTES_IN_A_CROWD, CROWD = 64 * 1024, 16 * 1024, 32
INBOX_BYTES_MAX = 128 * 1024  # what may wait for a turn before reading stops
PIECE_BYTES = 16 * 1024  # of small frames: two hundred at the most are taken apart in one turn
STEP_COMMANDS = 16  # served in one turn, where they are quick
STEP_S = 0.001
# Of one frame, in ten seconds: 26 kbit/s, which the slowest links have; and 4 MiB are here within 21 minutes.
FRAME_BYTES_MIN = 32 * 1024
FRAMES_BYTES_MAX = 32 * 1024 * 1024
UNREAD_BYTES_MAX = 64 * 1024 * 1024
UNREAD_SECONDS = 30.0  # in which somebody who is behind has to take in something
LAST_BYTES_SECONDS = 5.0  # for a connection that ends to take in what was written before
STRANGERS_QUIET_S = 60.0
STRANGERS_MAX = 1024  # hosts remembered for it


class House:
    """What the connections of a process share: turns, and limits for all of them together."""

    def __init__(
        self, turns: Turns, *, frames_bytes_max: int = FRAMES_BYTES_MAX, unread_bytes_max: int = UNREAD_BYTES_MAX
    ) -> None:
        self.turns = turns
        self._frames_bytes_max, self._unread_bytes_max = frames_bytes_max, unread_bytes_max
        self._frames_bytes = 0
        self._begun: dict[Served, int] = {}
        """How much of a frame is here, in the order in which these began."""
        self.behind: dict[Served, None] = {}
        """Who has not taken in his answers, the one that has been so for longest first. The others have at most the
        transport's high-water mark of 64 KiB each."""
        self._quiet: dict[str, float] = {}
        self.buffer = memoryview(bytearray(READ_BYTES_MAX))
        """What is read goes in here, and out again at once."""

    @property
    def frames_bytes(self) -> int:
        """Of frames that have begun and not ended."""
        return self._frames_bytes

    @property
    def unread_bytes(self) -> int:
        """Of answers that are not taken in."""
        return sum(channel.unread_bytes for channel in self.behind)

    def room(self) -> memoryview:
        """Where the next bytes that come are put."""
        return self.buffer if len(self._begun) < CROWD else self.buffer[:READ_BYTES_IN_A_CROWD]

    def note_frame(self, channel: Served, size: int, *, is_new: bool) -> None:
        """So much of a frame is here. Beyond what all may have, whoever began first goes: he had most time to end."""
        before = self._begun.get(channel, 0)
        self._frames_bytes += size - before
        if before and (is_new or not size):
            del self._begun[channel]
        if size:
            self._begun[channel] = size
        while self._frames_bytes > self._frames_bytes_max:
            strangers = (each for each in self._begun if not each.is_proven)
            first = next(strangers, None) or next(iter(self._begun))
            first.abort(f"frames of {self._frames_bytes} bytes are unfinished, {self._frames_bytes_max} at most")

    def look_at_unread(self) -> None:
        """Beyond what may be unread of all, whoever has been behind for longest goes."""
        while self.behind and self.unread_bytes > self._unread_bytes_max:
            first = next(iter(self.behind))
            del self.behind[first]
            first.abort(f"{self.unread_bytes} bytes of answers are unread, {self._unread_bytes_max} at most")

    def forget(self, channel: Served) -> None:
        self.note_frame(channel, 0, is_new=False)
        self.behind.pop(channel, None)

    def may_complain(self, host: str, now: float) -> bool:
        """Whether a line about this host may be logged: one a minute, whatever it sends."""
        if now < self._quiet.get(host, now):
            return False
        self._quiet.pop(host, None)
        self._quiet[host] = now + STRANGERS_QUIET_S
        if len(self._quiet) > STRANGERS_MAX:
            del self._quiet[next(iter(self._quiet))]
        return True


class Served(Channel, asyncio.BufferedProtocol):
    """Answers of one turn of the loop leave in one write.

    A commit answers all who shared it, and a system call costs as much as a third of a send. More than the transport
    would hold by itself is not collected, so that what nobody reads is seen.
    """

    def __init__(self, house: House, *, unsent_bytes_max: int, **options: Any) -> None:
        super().__init__(stall_bytes_min=FRAME_BYTES_MIN, **options)
        self.house = house
        self._unsent_bytes_max = unsent_bytes_max
        self.used = 0.0
        self.is_waiting = False
        self.is_proven = False
        """Whether it has asked for something that it may have."""
        self.on_proven: Callable[[Served], None] | None = None
        self._inbox: deque[bytes] = deque()
        self._inbox_at = 0
        """Where in the first of these the rest begins."""
        self._inbox_bytes = 0
        self._is_unfinished = False
        self._commands: deque[tuple[Answered | None, RemotingCommand]] = deque()
        self._works: deque[Work] = deque()
        self._collected_bytes = 0
        self._written = self._taken_in = 0
        self._behind_timer: asyncio.TimerHandle | None = None

    def prove(self) -> None:
        """It is no stranger: from now on it has its place."""
        if not self.is_proven:
            self.is_proven = True
            if self.on_proven is not None:
                self.on_proven(self)

    # In

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.house.room()

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.house.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self.close_reason is not None:
            return
        self._note_read(len(data))
        self._inbox.append(data)
        self._inbox_bytes += len(data)
        if self._inbox_bytes >= INBOX_BYTES_MAX:
            self.pause_reading()
        self._enter()

    def attend(self, work: Work) -> None:
        """Go on with this, a step a turn, before anything else of this connection."""
        if self.close_reason is None:
            self._works.append(work)
            self._enter()
        else:
            work.close()

    def _enter(self) -> None:
        if not self.is_waiting and self._has_work:
            self.house.turns.enter(self)

    @property
    def _has_work(self) -> bool:
        is_left = self._works or self._commands or self._inbox
        return bool(is_left) and self.close_reason is None and not self._is_write_paused

    def step(self) -> bool:
        """Serve a few requests, or a part of one."""
        if self.close_reason is None and not self._is_write_paused:
            if self._works:
                self._go_on()
            elif self._commands:
                self._serve_some()
            elif self._inbox:
                self._read_piece()
        return self._has_work

    def _serve_some(self) -> None:
        commands, until = self._commands, self._loop.time() + STEP_S
        for _ in range(STEP_COMMANDS):
            self._obey(*commands.popleft())
            if not commands or self._works or self._is_write_paused or self._loop.time() >= until:
                break

    def _go_on(self) -> None:
        work = self._works[0]
        try:
            next(work)
        except StopIteration:
            self._drop(work)
        except Exception:  # border: whoever serves requests; one bad request must not end the connection
            log.exception("request failed", peer=self.peer)
            self._drop(work)

    def _drop(self, work: Work) -> None:
        if self._works and self._works[0] is work:  # it may have ended the connection, and all works with it
            self._works.popleft()

    def _read_piece(self) -> None:
        """Take apart one large frame, or a few small ones."""
        data, at = self._inbox[0], self._inbox_at
        until = at + max(self._wire.lacking or 4 + int.from_bytes(data[at : at + 4]), PIECE_BYTES)
        if until >= len(data):
            self._inbox.popleft()
            self._inbox_at = 0
        else:
            self._inbox_at = until
        if at or until < len(data):
            data = data[at:until]
        self._inbox_bytes -= len(data)
        try:
            received = self._wire.receive_data(data)
        except ProtocolError as error:
            self._fail(error)
            return
        self._frames_read += len(received)
        self._commands.extend(received)
        if self._is_unfinished or self._wire.is_mid_frame:
            self._is_unfinished = self._wire.is_mid_frame
            self.house.note_frame(self, self._wire.buffered, is_new=bool(received))
        if not self._inbox_bytes and self._paused_at is not None:
            self.resume_reading()
        if self.close_reason is None:
            self._after_reading()

    def _take_request(self, command: RemotingCommand) -> None:
        if type(command) is Excessive:
            self.answer(command, RemotingCommand(ResponseCode.MESSAGE_ILLEGAL, remark=command.reason))
        else:
            super()._take_request(command)

    def _is_stalled(self) -> bool:
        if self._inbox:
            self._at_look = None  # it waits for us, and not we for it
            return False
        return super()._is_stalled()

    # Out

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        if self._transport is None or self.close_reason is not None:
            return
        data = self._wire.answer(request, answer)
        if not data:
            return
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(data)
        self._collected_bytes += len(data)
        if self._collected_bytes >= COLLECTED_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        frames, self._outbox = self._outbox, []
        self._collected_bytes = 0
        if frames and self.close_reason is None:
            self._write(frames[0] if len(frames) == 1 else b"".join(frames))

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        super()._write(data)
        if self._is_write_paused and self.close_reason is None:
            if self.unread_bytes > self._unsent_bytes_max:
                most = self._unsent_bytes_max
                self.abort(f"{self.unread_bytes} bytes wait to be read by the peer, more than {most}")
            else:
                self.house.look_at_unread()

    @property
    def unread_bytes(self) -> int:
        return int(self._transport.get_write_buffer_size())

    def pause_writing(self) -> None:
        super().pause_writing()
        self.house.behind[self] = None
        self._taken_in = self._written - self.unread_bytes
        if self._behind_timer is None:
            self._behind_timer = self._loop.call_later(UNREAD_SECONDS, self._look_behind)

    def _look_behind(self) -> None:
        self._behind_timer = None
        if not self._is_write_paused or self.close_reason is not None:
            return
        before, self._taken_in = self._taken_in, self._written - self.unread_bytes
        if self._taken_in <= before:
            self.abort(f"took in nothing of its answers for {UNREAD_SECONDS:g} s")
        else:
            self._behind_timer = self._loop.call_later(UNREAD_SECONDS, self._look_behind)

    def resume_writing(self) -> None:
        self.house.behind.pop(self, None)
        super().resume_writing()
        self._enter()

    # The end

    def _complain(self, error: ProtocolError) -> None:
        if self.house.may_complain(self.remote_host or self.peer, self._loop.time()):
            super()._complain(error)

    def _end(self, reason: str, *, abort: bool, cause: Exception | None = None) -> None:
        if self.close_reason is not None:
            return
        self._flush()
        super()._end(reason, abort=abort, cause=cause)
        if not abort and self._transport is not None and self.unread_bytes:
            # Else its bytes, and its place, would be kept for as long as it likes.
            self._loop.call_later(LAST_BYTES_SECONDS, self._transport.abort)
        self._clear()

    def _clear(self) -> None:
        self.house.forget(self)
        if self._behind_timer is not None:
            self._behind_timer.cancel()
        self._inbox.clear()
        self._commands.clear()
        self._inbox_bytes = 0
        works, self._works = self._works, deque()
        for work in works:
            work.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.house.forget(self)
