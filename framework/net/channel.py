"""Channel: one connection at work, on either side: bytes to `wire.Connection`, answers to futures.

It owns the transport, the deadlines of the requests under way and the end of the connection. It knows neither what a
command means nor how to connect again. A request costs one future: no task, no timer of its own.

When a channel ends by itself:

- its bytes are not RocketMQ remoting, a frame stands still, or answers come that nobody asked for, by the thousand;
- nothing was sent or received for 120 s, as on the Java side;
- **half open**: a request got no answer in its time, that time was meaningful (above 100 ms, as in the Java client),
  and not one byte of any kind came since it was sent. The Java client closes on every such time-out; silence is asked
  for here because a peer that is only slow with one request still answers others, which closing would lose. A long
  poll needs no rule of its own: its time-out (30 s) is twice the broker's hold (15 s), so it is late by the margin.
  One such wait of a few seconds may be that request's fault, and the end of a connection is every group's: two do it.
- it was told to go away (code 1500): no new requests; it closes when the last answer is in.

While reading is paused, time stands still for the requests under way: their answers may lie unread before us.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import structlog

from framework import marks
from framework.errors import BrokerUnreachable, ConnectionLost, ProtocolError, RequestTimedOut
from framework.net.address import text_of
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection, Limits

log = structlog.get_logger()

IDLE_SECONDS = 120.0  # as NettyClientConfig and NettyServerConfig: longer than any long poll or heartbeat period
MEANINGFUL_SECONDS = 0.1  # below that a time-out says nothing about the peer
ALONE_SECONDS = 10.0  # a wait of so long is believed at once; of shorter ones it takes a second
STALL_SECONDS = 10.0  # in which a frame that has begun must end, or go on by at least ...
STALL_BYTES_MIN = 4096
SILENT_CLOSE_HINT = ", without a word; is it a TLS port, or no broker?"
GO_AWAY_REASON = "told to go away"
STRAYS_MAX = 2048  # between two looks of the timer: more than could ever have been asked for and given up

DEFAULT_LIMITS = Limits()

Sign = Callable[[RemotingCommand], None]
Answered = asyncio.Future[RemotingCommand]


class _Deadline(NamedTuple):
    at: float
    sent: float
    code: int


class Channel:
    """asyncio's protocol shape. Make it inside the loop that it will live on."""

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
        self._doubted_at = float("-inf")
        """When the request was sent that ended a silence last."""
        """Whether any byte ever came: a connection that was merely accepted proves nothing."""
        self.close_reason: str | None = None
        self.is_faulty = False
        """Whether it ended for a reason that will meet the next connection too."""
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._wire: Connection[Answered] = Connection(limits)
        self._sign = sign
        self._on_open = on_open
        self._transport: Any = None
        self._outbox: list[bytes] = []
        """Ready-made frames of this turn of the loop."""
        self._deadlines: dict[int, _Deadline] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._read_at = self._written_at = self._loop.time()
        self._bytes_read = self._frames_read = 0
        self._stall_bytes_min = stall_bytes_min
        self._at_look: tuple[int, int] | None = None
        """Frames and bytes read at the last look, where a frame had begun by then."""
        self._strays_max = STRAYS_MAX
        self._paused_at: float | None = None
        self._is_write_paused = False
        self._waiting_to_write: deque[asyncio.Future[None]] = deque()

    async def request(self, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        """The answer, whatever its code. Raises ConnectionLost or RequestTimedOut."""
        left_ms = await self._room_to_write(command, timeout_ms) if self._is_write_paused else timeout_ms
        future = self.request_now(command, timeout_ms=left_ms)
        number = command.number
        try:
            return await future
        finally:
            if future.cancelled():
                self._forget(number)

    def request_now(self, command: RemotingCommand, *, timeout_ms: int) -> Answered:
        """The answer's future; it fails with ConnectionLost or RequestTimedOut. For small frames: it never waits."""
        if not self.is_open:
            raise ConnectionLost(f"{self.peer}: {self.close_reason or 'not connected yet'}")
        if self._sign is not None:
            self._sign(command)
        future: Answered = self._loop.create_future()
        data = self._wire.request(command, future)
        self._flush()
        self._transport.write(data)
        self._watch(command.number, command.code, timeout_ms)
        return future

    def request_frame(self, frame_of: Callable[[int], bytes], code: int, *, timeout_ms: int) -> Answered:
        """The same for a frame put together elsewhere: `frame_of(number)` gives its bytes. Never signed.

        Frames of one turn of the loop leave in one write: when answers arrive together, so do the next pulls, and a
        system call costs more than all the rest of a pull.
        """
        if not self.is_open:
            raise ConnectionLost(f"{self.peer}: {self.close_reason or 'not connected yet'}")
        assert self._sign is None, "a ready-made frame carries no signature"
        future: Answered = self._loop.create_future()
        number = self._wire.next_number()
        self._wire.expect(number, future)
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(frame_of(number))
        self._watch(number, code, timeout_ms)
        return future

    def _flush(self) -> None:
        """Write what this turn has collected; before anything else is written, or it would overtake."""
        frames, self._outbox = self._outbox, []
        if frames and self.close_reason is None:
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    @property
    def signs(self) -> bool:
        """Whether requests are signed, so that ready-made frames won't do."""
        return self._sign is not None

    def send(self, command: RemotingCommand) -> None:
        """A one-way: never answered, and dropped where the channel has ended."""
        if not self.is_open:
            return
        if self._sign is not None:
            self._sign(command)
        self._write(self._wire.one_way(command))

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        """Answer a request of the peer's; dropped where the channel has ended or nobody wants an answer."""
        if self._transport is None or self.close_reason is not None:
            return
        data = self._wire.answer(request, answer)
        if data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        self._written_at = self._loop.time()
        self._flush()
        if not self._transport.is_closing():  # asyncio has a line of the log for each write behind a connection's end
            self._transport.write(data)

    async def _room_to_write(self, command: RemotingCommand, timeout_ms: int) -> int:
        """Wait while the peer reads too slowly; answers how much of the time-out is left."""
        loop = self._loop
        until = loop.time() + timeout_ms / 1000
        while self._is_write_paused and self.is_open:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting_to_write.append(turn)
            try:
                async with asyncio.timeout_at(until):
                    await turn
            except TimeoutError:
                raise RequestTimedOut(
                    f"{request_name(command.code)}: {self.peer} took in no bytes for {timeout_ms} ms; nothing was sent"
                ) from None
        return max(1, int((until - loop.time()) * 1000))

    def _watch(self, number: int, code: int, timeout_ms: int) -> None:
        now = self._written_at = self._loop.time()
        at = now + timeout_ms / 1000
        self._deadlines[number] = _Deadline(at, now, code)
        if at < self._timer_at:
            self._arm(at)

    def _forget(self, number: int) -> None:
        self._wire.forget(number)
        self._deadlines.pop(number, None)

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        """The channel's one timer: what is overdue, who is silent, and when to look again."""
        self._timer = None
        if self._paused_at is not None:
            return  # resume_reading arms it again
        now = self._loop.time()
        self._strays_max = self._wire.strays + STRAYS_MAX
        silence = self._expire(now)
        if silence is not None:
            marks.sometimes("a half-open connection was closed")
            self._end(f"not one byte within {silence:g} s of a request", abort=True)
        elif self._is_stalled():
            self._fail(ProtocolError(f"a frame stood still for {STALL_SECONDS:g} s"))
        elif not self.is_open and not self._wire.waiting:
            self._end(GO_AWAY_REASON, abort=False)
        elif now - max(self._read_at, self._written_at) >= IDLE_SECONDS:
            self._end(f"idle for {IDLE_SECONDS:g} s", abort=False)
        else:
            self._arm(self._next_look(now))

    def _next_look(self, now: float) -> float:
        earliest = min(deadline.at for deadline in self._deadlines.values()) if self._deadlines else now + IDLE_SECONDS
        earliest = min(earliest, max(self._read_at, self._written_at) + IDLE_SECONDS)
        return min(earliest, now + STALL_SECONDS) if self._at_look is not None else earliest

    def _expire(self, now: float) -> float | None:
        """Fail what is overdue; the longest budget among it that passed in complete silence, if meaningful."""
        if not marks.safeguard("requests time out"):
            self._deadlines.clear()
            return None
        silence: float | None = None
        for number, deadline in [entry for entry in self._deadlines.items() if entry[1].at <= now]:
            budget = deadline.at - deadline.sent
            future = self._wire.forget(number)
            del self._deadlines[number]
            if future is None or future.cancelled():
                continue
            name = request_name(deadline.code)
            _fail(future, RequestTimedOut(f"{name}: no answer from {self.peer} within {budget * 1000:.0f} ms"))
            if budget > MEANINGFUL_SECONDS and self._read_at <= deadline.sent:
                is_second = self._read_at <= self._doubted_at
                self._doubted_at = deadline.sent
                if is_second or budget >= ALONE_SECONDS:
                    silence = max(silence or 0.0, budget)
        return silence

    def _is_stalled(self) -> bool:
        """Whether the frame that had begun at the last look made too little headway since."""
        frames, count = self._at_look or (-1, 0)
        self._at_look = (self._frames_read, self._bytes_read) if self._wire.is_mid_frame else None
        is_same = self._at_look is not None and frames == self._frames_read
        return is_same and self._bytes_read - count < self._stall_bytes_min

    # What the transport tells us

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if not self.peer:
            self.peer = text_of(transport.get_extra_info("peername"))
        self.is_open = True
        self._arm(self._loop.time() + IDLE_SECONDS)
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        if self.close_reason is not None:
            return  # what was on its way when we closed
        self._note_read(len(data))
        try:
            received = self._wire.receive_data(data)
        except ProtocolError as error:
            self._fail(error)
            return
        self._frames_read += len(received)
        for future, command in received:
            self._obey(future, command)
        self._after_reading()

    def _note_read(self, count: int) -> None:
        self._read_at, self.has_heard = self._loop.time(), True
        self._bytes_read += count

    def _obey(self, future: Answered | None, command: RemotingCommand) -> None:
        """Take a frame. An answer is given on though the channel has ended: nobody else would end the wait for it."""
        if future is None:
            if self.close_reason is None:
                self._take_request(command)
            return
        self._deadlines.pop(command.number, None)  # gone where a request before it ended the channel
        if command.code == ResponseCode.GO_AWAY:
            self.retire()
        if not future.done():
            future.set_result(command)

    def _after_reading(self) -> None:
        if not self.is_open:
            self._close_when_answered()
        elif self._wire.strays > self._strays_max:
            self._fail(ProtocolError(f"more than {STRAYS_MAX} answers that nobody waits for"))
        elif self._wire.is_mid_frame and self._timer_at > (until := self._read_at + STALL_SECONDS):
            self._arm(until)

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

    def eof_received(self) -> bool | None:
        return None  # the transport closes itself; a half-closed peer is of no use

    def connection_lost(self, error: Exception | None) -> None:
        reason = f"connection lost: {error}" if error is not None else "closed by the peer"
        self._end(reason if self.has_heard else reason + SILENT_CLOSE_HINT, abort=True)
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        waiting, self._waiting_to_write = self._waiting_to_write, deque()
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    # Flow, and the end

    def pause_reading(self) -> None:
        """Leave what the peer sends in the system's buffers, until it stops sending."""
        if self._paused_at is None and self.close_reason is None and self._transport is not None:
            self._paused_at = self._loop.time()
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on. The requests under way get back the time for which reading was paused."""
        if self._paused_at is None:
            return
        paused, self._paused_at = self._loop.time() - self._paused_at, None
        if self.close_reason is not None:
            return
        self._read_at += paused
        self._written_at += paused
        self._deadlines = {
            number: _Deadline(deadline.at + paused, deadline.sent + paused, deadline.code)
            for number, deadline in self._deadlines.items()
        }
        self._arm(self._next_look(self._loop.time()))
        self._transport.resume_reading()

    def retire(self) -> None:
        """Take no new requests; close when those under way are answered."""
        if self.is_open:
            marks.sometimes("a connection was told to go away")
            log.info("channel retired", peer=self.peer, waiting=self._wire.waiting)
            self.is_open = False
            self._close_when_answered()

    def _close_when_answered(self) -> None:
        if not self._wire.waiting and self.close_reason is None:
            self._end(GO_AWAY_REASON, abort=False)

    def close(self, reason: str) -> None:
        """End the connection; whoever waits on it gets a ConnectionLost with this reason."""
        self._end(reason, abort=False)

    def abort(self, reason: str) -> None:
        """The same without waiting until what was written is out."""
        self._end(reason, abort=True)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: ProtocolError) -> None:
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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadlines.clear()
        for future in self._wire.close():
            error = ConnectionLost(f"{self.peer}: {reason}")
            error.__cause__ = cause
            _fail(future, error)
        self.resume_writing()  # those who waited for room find the channel closed
        if self._transport is None:
            if not self.closed.done():
                self.closed.set_result(None)
        elif abort:
            self._transport.abort()
        else:
            self._transport.close()

    @property
    def waiting(self) -> int:
        """Requests under way."""
        return self._wire.waiting

    @property
    def remote_host(self) -> str:
        """The address at the other end as the system sees it, or nothing where it has none."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(name[0]) if isinstance(name, tuple) and name else ""

    def __repr__(self) -> str:
        state = "open" if self.is_open else self.close_reason or ("leaving" if self._transport else "connecting")
        return f"<Channel {self.peer} {state} waiting={self._wire.waiting}>"


def _fail(future: Answered, error: BrokerUnreachable) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # looked at: a pull that was given up need not be complained of
