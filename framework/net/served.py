"""Served: an accepted connection, which is served in turns.

Bytes that came in wait until it is their turn; meanwhile no more are read. A peer that does not take in its answers is
not served either, and a connection that was cut is served nothing more. Of a peer that has closed in order the rest is
served: it may be messages for whose answers nobody waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, cast

import structlog

from framework.errors import ProtocolError
from framework.net.address import peer_of
from framework.net.channel import Channel
from framework.net.channel_timer import Answered
from framework.net.frame_writer import AnswerWriter
from framework.net.shared_limits import SharedLimits
from framework.ports import Pipe
from framework.wire.codes import ResponseCode
from framework.wire.command import Excessive, RemotingCommand

Work: TypeAlias = Generator[None, None, None]

log = structlog.get_logger()

INBOX_BYTES_MAX = 128 * 1024  # what may wait for a turn before reading stops
PIECE_BYTES = 16 * 1024  # of small frames: two hundred at the most are taken apart in one turn
STEP_COMMANDS = 16  # served in one turn, where they are quick
STEP_S = 0.001
# Of one frame, in ten seconds: 26 kbit/s, which the slowest links have; and 4 MiB are here within 21 minutes.
FRAME_BYTES_MIN = 32 * 1024
LAST_BYTES_SECONDS = 5.0  # for a connection that ends to take in what was written before


class Served(Channel, asyncio.BufferedProtocol):
    """A connection under limits that all connections share. `step` serves some of what came in."""

    def __init__(
        self,
        shared: SharedLimits,
        *,
        unsent_bytes_max: int,
        on_arrived: Callable[[Served], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(stall_bytes_min=FRAME_BYTES_MIN, **options)
        self.shared = shared
        self._writer: AnswerWriter = AnswerWriter(self._timer, shared, self.abort, unsent_bytes_max=unsent_bytes_max)
        self.used = 0.0
        self.is_waiting = False
        self.is_proven = False
        """Whether it has asked for something that it may have."""
        self.on_proven: Callable[[Served], None] | None = None
        self._on_arrived = on_arrived
        self._inbox = self._timer.unread = deque[bytes]()
        self._inbox_at = 0
        """Where in the first of these the rest begins."""
        self._inbox_bytes = 0
        self._is_unfinished = self._has_left = False
        self._commands: deque[tuple[Answered | None, RemotingCommand]] = deque()
        self._works: deque[Work] = deque()

    def prove(self) -> None:
        """It is no stranger: from now on it has its place."""
        if not self.is_proven:
            self.is_proven = True
            if self.on_proven is not None:
                self.on_proven(self)

    # In

    def arrived(self, transport: Pipe) -> None:
        """It is to speak TLS before it is open. From now on it has its place, and may be cut off."""
        self._transport = self._writer.transport = transport
        self.remote_host, self.peer = peer_of(transport.get_extra_info("peername"))
        if self._on_arrived is not None:
            self._on_arrived(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._transport is None:
            self.arrived(cast("Pipe", transport))
        if self.close_reason is None:
            super().connection_made(transport)
        else:
            cast("Pipe", transport).abort()  # it ended in its handshake

    @property
    def heard_at(self) -> float:
        """When the peer last sent anything."""
        return self._timer.read_at

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.shared.room()

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.shared.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self.close_reason is not None:
            return
        self.has_heard = True
        self._timer.note_read(len(data))
        self._inbox.append(data)
        self._inbox_bytes += len(data)
        if self._inbox_bytes >= INBOX_BYTES_MAX:
            self.pause_reading()
        self._enter()

    def eof_received(self) -> bool:
        """The peer sends no more. By TLS nothing can stay half open."""
        is_by_tls = self._transport is not None and self._transport.get_extra_info("ssl_object") is not None
        self._has_left = self._has_work and not is_by_tls
        return self._has_left

    def _leave_once_served(self) -> None:
        if self._has_left and not self._has_work and not self._writer.is_paused:
            self.close("closed by the peer")

    def attend(self, work: Work) -> None:
        """Go on with this, a step a turn, before anything else of this connection."""
        if self.close_reason is None:
            self._works.append(work)
            self._enter()
        else:
            work.close()

    def _enter(self) -> None:
        if not self.is_waiting and self._has_work:
            self.shared.turns.enter(self)

    @property
    def _has_work(self) -> bool:
        is_left = self._works or self._commands or self._inbox
        return bool(is_left) and self.close_reason is None and not self._writer.is_paused

    def step(self) -> bool:
        """Serve a few requests, or a part of one."""
        try:
            self._serve()
        except Exception as error:  # border: a mistake of ours ends this connection, and no other
            log.exception("connection failed", peer=self.peer)
            self.abort(f"{type(error).__name__} while it was served")
        return self._has_work

    def _serve(self) -> None:
        if self.close_reason is None and not self._writer.is_paused:
            if self._works:
                self._go_on()
            elif self._commands:
                self._serve_some()
            elif self._inbox:
                self._read_piece()
        self._leave_once_served()

    def _serve_some(self) -> None:
        commands, until = self._commands, self._loop.time() + STEP_S
        for _ in range(STEP_COMMANDS):
            self._obey(*commands.popleft())
            if not commands or self._works or self._writer.is_paused or self._loop.time() >= until:
                break

    def _go_on(self) -> None:
        work = self._works[0]
        try:
            next(work)
            return
        except StopIteration:
            pass
        except Exception:  # border: whoever serves requests; one bad request must not end the connection
            log.exception("request failed", peer=self.peer)
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
            self.fail(error)
            return
        self._timer.frames_read += len(received)
        self._commands.extend(received)
        if self._is_unfinished or self._wire.is_mid_frame:
            self._is_unfinished = self._wire.is_mid_frame
            self.shared.note_frame(self, self._wire.buffered, is_new=bool(received))
        if not self._inbox_bytes and self._timer.is_paused:
            self.resume_reading()
        if self.close_reason is None:
            self._after_reading()

    def _take_request(self, command: RemotingCommand) -> None:
        if type(command) is Excessive:
            self.answer(command, RemotingCommand(ResponseCode.MESSAGE_ILLEGAL, remark=command.reason))
        else:
            super()._take_request(command)

    # Out

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        if self._transport is None or self.close_reason is not None:
            return
        data = self._wire.answer(request, answer)
        if data:
            self._writer.collect(data)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._enter()
        self._leave_once_served()

    # The end

    def _complain(self, error: ProtocolError) -> None:
        if self.shared.may_complain(self.remote_host or self.peer, self._loop.time()):
            super()._complain(error)

    def _end(self, reason: str, *, abort: bool, cause: Exception | None = None) -> None:
        if self.close_reason is not None:
            return
        self._writer.flush()
        super()._end(reason, abort=abort, cause=cause)
        if not abort and self._transport is not None and self._writer.unread_bytes:
            # Else its bytes, and its place, would be kept for as long as it likes.
            self._loop.call_later(LAST_BYTES_SECONDS, self._transport.abort)
        self._clear()

    def _clear(self) -> None:
        self.shared.forget(self)
        self._inbox.clear()
        self._commands.clear()
        self._inbox_bytes = 0
        works, self._works = self._works, deque()
        for work in works:
            work.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.shared.forget(self)
