"""Channel: one connection at work, on either side: bytes to `wire.Connection`, answers to futures.

It owns the transport and the end of the connection; deadlines are `channel_timer.py`'s, writing `frame_writer.py`'s. It
knows neither what a command means nor how to connect again. A request costs one future: no task, no timer of its own.

A channel ends by itself where its timer says so; where its bytes are not RocketMQ remoting, or answers come that nobody
asked for, by the thousand; and where it was told to go away (code 1500): then it takes no new requests, and closes when
the last answer is in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import structlog

from framework.errors import ConnectionLost, ProtocolError
from framework.net.address import peer_of
from framework.net.channel_timer import (
    GO_AWAY_REASON,
    STALL_BYTES_MIN,
    STRAYS_MAX,
    Answered,
    ChannelTimer,
    fail_future,
)
from framework.net.frame_writer import FrameWriter
from framework.net.tls import SILENT_CLOSE_HINT
from framework.ports import Pipe
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection, Limits
from framework.wire.frame import ANSWER_HEADER_BYTES_MAX

log = structlog.get_logger()


_GO_AWAY = int(ResponseCode.GO_AWAY)
DEFAULT_LIMITS = Limits(header_bytes_max=ANSWER_HEADER_BYTES_MAX)
"""Of a connection that we open, by which answers come."""

Sign: TypeAlias = Callable[[RemotingCommand], None]


class Ready(NamedTuple):
    """A request whose frame was put together elsewhere, but for its number. Never signed."""

    code: int
    frame_of: Callable[[int], bytes]


class Channel(asyncio.Protocol):
    """Make it inside the loop that it will live on."""

    def __init__(
        self,
        peer: str = "",
        *,
        limits: Limits = DEFAULT_LIMITS,
        sign: Sign | None = None,
        on_request: Callable[[Channel, RemotingCommand], None] | None = None,
        on_open: Callable[[Channel], None] | None = None,
        stall_bytes_min: int = STALL_BYTES_MIN,
    ) -> None:
        self.peer = peer
        """The address that was dialled, or the one that an accepted connection comes from."""
        self.on_request = on_request
        self.is_open = False
        """Whether requests may be sent."""
        self.has_heard = False
        """Whether any byte ever came: a connection that was merely accepted proves nothing."""
        self.close_reason: str | None = None
        self.is_faulty = False
        """Whether it ended for a reason that will meet the next connection too."""
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._wire: Connection[Answered] = Connection(limits)
        self.remote_host = ""
        """The address at the other end as the system sees it, where it has one."""
        self.signs = sign is not None
        """Whether requests are signed, so that ready-made frames won't do."""
        self._sign = sign
        self._on_open = on_open
        self._transport: Pipe | None = None
        self._timer = ChannelTimer(self, self._wire, stall_bytes_min=stall_bytes_min)
        self._writer = FrameWriter(self._timer)

    async def request(self, command: RemotingCommand | Ready, *, timeout_ms: int) -> RemotingCommand:
        """The answer, whatever its code. Raises ConnectionLost or RequestTimedOut."""
        writer = self._writer
        left_ms = await writer.room(command.code, self.peer, timeout_ms) if writer.is_paused else timeout_ms
        if type(command) is Ready:
            future = self.request_frame(command.frame_of, command.code, timeout_ms=left_ms)
        else:
            assert isinstance(command, RemotingCommand)
            future = self.request_now(command, timeout_ms=left_ms)
        number = self._wire.last_number
        try:
            return await future
        finally:
            if future.cancelled():
                self._wire.forget(number)
                self._timer.deadlines.pop(number, None)

    def request_now(self, command: RemotingCommand, *, timeout_ms: int) -> Answered:
        """The answer's future; it fails with ConnectionLost or RequestTimedOut. For small frames: it never waits.

        Frames of one turn of the loop leave in one write, but for large ones.
        """
        if not self.is_open:
            raise ConnectionLost(f"{self.peer}: {self.close_reason or 'not connected yet'}")
        if self._sign is not None:
            self._sign(command)
        future: Answered = self._loop.create_future()
        data = self._wire.request(command, future)
        self._writer.collect(data)
        self._timer.watch(command.number, command.code, timeout_ms)
        return future

    def request_frame(self, frame_of: Callable[..., bytes], code: int, *values: Any, timeout_ms: int) -> Answered:
        """The same for a frame put together elsewhere: `frame_of(number, *values)` gives its bytes. Never signed.

        Frames of one turn of the loop leave in one write.
        """
        if not self.is_open:
            raise ConnectionLost(f"{self.peer}: {self.close_reason or 'not connected yet'}")
        assert self._sign is None, "a ready-made frame carries no signature"
        future: Answered = self._loop.create_future()
        number = self._wire.next_number()
        self._wire.expect(number, future)
        self._writer.collect(frame_of(number, *values))
        self._timer.watch(number, code, timeout_ms)
        return future

    def send(self, command: RemotingCommand | Ready, *, at_once: bool = False) -> None:
        """A one-way: never answered, dropped where the channel has ended. Ready-made ones of a turn leave together, but
        `at_once` where a request on another connection must not be ahead of it.
        """
        if not self.is_open:
            return
        if type(command) is Ready:
            self._timer.written_at = self._loop.time()
            frame = command.frame_of(self._wire.next_number())
            self._writer.write(frame) if at_once else self._writer.gather(frame)
            return
        assert isinstance(command, RemotingCommand)
        if self._sign is not None:
            self._sign(command)
        self._writer.write(self._wire.one_way(command))

    async def one_way(self, command: RemotingCommand | Ready, *, timeout_ms: int) -> None:
        """The same once the peer takes bytes in. Raises ConnectionLost or RequestTimedOut where nothing was written."""
        if self._writer.is_paused:
            await self._writer.room(command.code, self.peer, timeout_ms)
        if not self.is_open:
            raise ConnectionLost(f"{self.peer}: {self.close_reason or 'not connected yet'}")
        self.send(command)

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        """Answer a request of the peer's; dropped where the channel has ended or nobody wants an answer."""
        if self._transport is None or self.close_reason is not None:
            return
        data = self._wire.answer(request, answer)
        if data:
            self._writer.write(data)

    # What the transport tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._writer.transport = cast("Pipe", transport)
        self.remote_host, name = peer_of(transport.get_extra_info("peername"))
        self.peer = self.peer or name
        self.is_open = True
        self._timer.start()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        if self.close_reason is not None:
            return  # what was on its way when we closed
        self.has_heard = True
        self._timer.note_read(len(data))
        try:
            received = self._wire.receive_data(data)
        except ProtocolError as error:
            self.fail(error)
            return
        self._timer.frames_read += len(received)
        for future, command in received:
            self._obey(future, command)
        self._after_reading()

    def _obey(self, future: Answered | None, command: RemotingCommand) -> None:
        """Take a frame. An answer is given on though the channel has ended: nobody else would end the wait for it."""
        if future is None:
            if self.close_reason is None:
                self._take_request(command)
            return
        self._timer.deadlines.pop(command.number, None)  # gone where a request before it ended the channel
        if command.code == _GO_AWAY:
            self.retire()
        if not future.done():
            future.set_result(command)

    def _after_reading(self) -> None:
        if not self.is_open:
            if not self._wire.waiting:
                self.close(GO_AWAY_REASON)
        elif self._wire.strays > self._timer.strays_max:
            self.fail(ProtocolError(f"more than {STRAYS_MAX} answers that nobody waits for"))
        elif self._wire.is_mid_frame:
            self._timer.watch_frame()

    def _take_request(self, command: RemotingCommand) -> None:
        if self.on_request is None:
            remark = f" request type {command.code} not supported"
            self.answer(command, RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
            return
        try:
            self.on_request(self, command)
        except Exception as error:  # border: whoever serves requests; one bad request must not end the connection
            log.exception("request failed", peer=self.peer, request=request_name(command.code))
            remark = f"{type(error).__name__} in {request_name(command.code)}"
            self.answer(command, RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark))

    def connection_lost(self, error: Exception | None) -> None:
        reason = f"connection lost: {error}" if error is not None else "closed by the peer"
        self._end(reason if self.has_heard else reason + SILENT_CLOSE_HINT, abort=True)
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    # Flow, and the end

    def pause_reading(self) -> None:
        """Leave what the peer sends in the system's buffers, until it stops sending."""
        if not self._timer.is_paused and self.close_reason is None and self._transport is not None:
            self._timer.pause()
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on. The requests under way get back the time for which reading was paused."""
        if self._timer.is_paused and self.close_reason is None and self._transport is not None:
            self._timer.resume()
            self._transport.resume_reading()

    def retire(self) -> None:
        """Take no new requests; close when those under way are answered."""
        if self.is_open:
            log.info("channel retired", peer=self.peer, waiting=self._wire.waiting)
            self.is_open = False
            if not self._wire.waiting:
                self.close(GO_AWAY_REASON)

    def close(self, reason: str) -> None:
        """End the connection; whoever waits on it gets a ConnectionLost with this reason."""
        self._end(reason, abort=False)

    def abort(self, reason: str) -> None:
        """The same without waiting until what was written is out."""
        self._end(reason, abort=True)
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: ProtocolError) -> None:
        """End it since the peer breaks the protocol."""
        self._complain(error)
        self.is_faulty = True
        self._end(error.reason, abort=True, cause=error)

    def _complain(self, error: ProtocolError) -> None:
        log.warning("protocol violated", peer=self.peer, reason=error.reason)

    def _end(self, reason: str, *, abort: bool, cause: Exception | None = None) -> None:
        if self.close_reason is not None:
            return
        self.close_reason = reason
        self.is_open = False
        self._timer.stop()
        for future in self._wire.close():
            error = ConnectionLost(f"{self.peer}: {reason}")
            error.__cause__ = cause
            fail_future(future, error)
        if not abort and self._transport is not None:
            self._writer.flush()
        self._writer.end()
        if self._transport is None:
            if not self.closed.done():
                self.closed.set_result(None)
        elif abort:
            self._transport.abort()
        else:
            self._transport.close()

    @property
    def unwritten(self) -> int:
        """Bytes that the system has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def __repr__(self) -> str:
        state = "open" if self.is_open else self.close_reason or ("leaving" if self._transport else "connecting")
        return f"<Channel {self.peer} {state} waiting={self._wire.waiting}>"
