"""Connection: one peer's bytes in, commands out; which request an answer belongs to. No socket, task or clock.

Everything that numbers requests or remembers who waits for an answer is in this file. Both sides of a connection use
it: a broker asks its clients as well. It does not know what a command means, nor when a peer took too long: the shell
tells it to `forget` a request, and an answer that comes later is a stray, dropped and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Generic, TypeVar

from framework.errors import BrokerUnreachable, ConnectionLost, ProtocolError
from framework.mistakes import MessageWrong
from framework.wire import frame
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import ANSWER_BIT, ONE_WAY_BIT, Excessive, RemotingCommand

T = TypeVar("T")

NUMBER_MAX = 0x7FFF_FFFF  # an int32 in Java; ours wraps before the sign

_UINT32 = Struct(">I")
_PREFIX = Struct(">II")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a peer may make us hold. Checked before anything is allocated or waited for."""

    frame_bytes_max: int = frame.FRAME_BYTES_MAX
    sent_bytes_max: int = frame.FRAME_BYTES_MAX
    """What a peer takes, as every stock client and broker does, whatever we take."""
    header_bytes_max: int = frame.HEADER_BYTES_MAX
    in_flight_max: int = 65_536
    """As the Java client. Each queue has a long poll, and at a stop its last offset is confirmed beside that: a limit
    that thousands of queues reach would leave some offsets unconfirmed.
    """
    times_read_past: int = 1
    """A request whose frame or header has up to so many times its limit is read past, to be answered that it does."""


class Connection(Generic[T]):
    """The state of one connection, from its first byte to its end; `T` is what the shell waits with."""

    __slots__ = ("_binary", "_buffer", "_end", "_excess", "_limits", "_need", "_number", "_skip", "_waiting", "strays")

    def __init__(self, limits: Limits = Limits(), *, binary: bool = False) -> None:
        self._limits = limits
        self._binary = binary
        self._number = 0
        self._waiting: dict[int, T] = {}
        self._buffer = bytearray()
        """The frame that has begun to arrive and no byte of the next one; empty between frames."""
        self._need = 0
        """How many bytes the buffer must hold before there is anything to decide. Until then nothing is looked at."""
        self._excess = ""
        """Why the frame in the buffer is read past: of it, only the header is kept."""
        self._skip: tuple[int, Excessive] | None = None
        """How many bytes of such a frame's body are still to come, and what is then handed out."""
        self._end: str | None = None
        self.strays = 0
        """Answers that nobody waited for: late, repeated, or to a one-way."""

    # Out

    def request(self, command: RemotingCommand, token: T) -> bytes:
        """Number the command and remember who waits. The frame's bytes are the caller's to write."""
        command.number = self.next_number()
        data = self._encode(command)
        self.expect(command.number, token)
        return data

    def next_number(self) -> int:
        """A number that no request under way has."""
        number = self._number
        while True:
            number = number + 1 if number < NUMBER_MAX else 1
            if number not in self._waiting:
                self._number = number
                return number

    @property
    def last_number(self) -> int:
        """The last one that was given out."""
        return self._number

    def expect(self, number: int, token: T) -> None:
        """Remember who waits for a request whose frame was put together elsewhere (a pull's template)."""
        if self._end is not None:
            raise ConnectionLost(f"connection is closed: {self._end}")
        if len(self._waiting) >= self._limits.in_flight_max:
            raise BrokerUnreachable(
                f"{len(self._waiting)} requests wait for answers on one connection, its limit; ask again later"
            )
        self._waiting[number] = token

    def one_way(self, command: RemotingCommand) -> bytes:
        """A command that is never answered."""
        command.number = self.next_number()
        command.flag |= ONE_WAY_BIT
        return self._encode(command)

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> bytes:
        """The answer's bytes; none where the request asked for no answer.

        In place of one that no frame can carry goes code 1, which says so: whoever asked must hear something.
        """
        if request.flag & ONE_WAY_BIT:
            return b""
        answer.number = request.number
        answer.flag |= ANSWER_BIT
        try:
            return self._encode(answer)
        except MessageWrong as error:
            remark = f"the answer to {request_name(request.code)} cannot be sent: {error}"
            said = RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark, number=request.number, flag=ANSWER_BIT)
            return self._encode(said)

    def _encode(self, command: RemotingCommand) -> bytes:
        data = frame.encode(command, binary=self._binary)
        size, most = len(data) - 4, self._limits.sent_bytes_max
        if size > most:
            is_answer = command.flag & ANSWER_BIT
            what = "" if is_answer else f"{request_name(command.code)}: "
            remedy = "ask for" if is_answer else "send"
            raise MessageWrong(f"{what}{frame.beyond('frame', size, most)}; {remedy} less at once")
        return data

    # In

    def receive_data(self, data: bytes) -> list[tuple[T | None, RemotingCommand]]:
        """What `data` completes: (token, answer), or (None, request or one-way). Half a frame is kept for later.

        A ProtocolError ends the connection; whoever waits is still there for `close` to name.
        """
        if self._end is not None:
            raise ProtocolError(f"data after the end of the connection: {self._end}")
        commands: list[RemotingCommand] = []
        try:
            at = self._resume(data, 0, commands) if self.is_mid_frame else 0
            self._read(data, at, commands)
        except ProtocolError as error:
            self._end = error.reason
            self._buffer.clear()
            raise
        # Matched only now: had a later frame been bad, no waiting token may have been taken out for an earlier one.
        return self._match(commands)

    def _read(self, data: bytes, at: int, commands: list[RemotingCommand]) -> None:
        """Whole frames are cut straight out of `data`; what remains begins the buffer."""
        limits = self._limits
        size = len(data)
        while size - at >= frame.PREFIX_BYTES:
            length, word = _PREFIX.unpack_from(data, at)
            header_size = word & 0xFF_FFFF
            if not 4 <= length <= limits.frame_bytes_max or header_size > limits.header_bytes_max:
                self._buffer += data[at : at + frame.PREFIX_BYTES]
                self._need = self._judge_start()
                at = self._resume(data, at + frame.PREFIX_BYTES, commands)
                continue
            frame.check_header(word, length, limits.header_bytes_max)
            end = at + 4 + length
            if end > size:
                self._need = 4 + length
                self._buffer += memoryview(data)[at:]
                return
            body_at = at + 8 + header_size
            commands.append(frame.open_header(word >> 24, data[at + 8 : body_at], data[body_at:end]))
            at = end
        if at < size:
            self._buffer += data[at:]
            self._need = self._judge_start()

    def _resume(self, data: bytes, at: int, commands: list[RemotingCommand]) -> int:
        """Go on with the frame in the buffer; answer where in `data` the next one begins.

        Only what this frame lacks is taken, and its bytes are looked at again only when the next decision is due, so
        that a large frame in small pieces costs one copy and no second look.
        """
        buffer = self._buffer
        while not self._skip:
            lacking = self._need - len(buffer)
            if lacking > len(data) - at:
                buffer += memoryview(data)[at:]
                if len(buffer) < frame.PREFIX_BYTES:
                    self._need = self._judge_start()
                return len(data)
            buffer += memoryview(data)[at : at + lacking]
            at += lacking
            if self._need > frame.PREFIX_BYTES:  # both lengths were judged, and no frame ends within them
                command = self._take_frame()
                if not self._excess:
                    commands.append(command)
                    return at
                self._begin_to_skip(command)
            else:
                self._need = self._judge_start()
        return self._read_past(data, at, commands)

    def _begin_to_skip(self, command: RemotingCommand) -> None:
        reason, self._excess = self._excess, ""
        if command.is_answer:
            raise ProtocolError(reason)  # who waits for it needs an end, and not this
        self._skip = self._need, Excessive(command, reason)

    def _read_past(self, data: bytes, at: int, commands: list[RemotingCommand]) -> int:
        assert self._skip is not None
        left, command = self._skip
        step = min(left, len(data) - at)
        if step < left:
            self._skip = left - step, command
        else:
            self._skip = None
            commands.append(command)
        return at + step

    def _judge_start(self) -> int:
        """How many bytes the frame in the buffer needs until the next decision; refuses what can be refused already."""
        buffer, limits = self._buffer, self._limits
        if len(buffer) < 4:
            return 4
        (length,) = _UINT32.unpack_from(buffer)
        times = limits.times_read_past
        if not 4 <= length <= limits.frame_bytes_max:
            frame.check_length(length, limits.frame_bytes_max, bytes(buffer[:8]), times=times)
        if len(buffer) < frame.PREFIX_BYTES:
            return frame.PREFIX_BYTES
        (word,) = _UINT32.unpack_from(buffer, 4)
        header_size = frame.check_header(word, length, limits.header_bytes_max, times=times)
        if length > limits.frame_bytes_max:
            self._excess = frame.beyond("frame", length, limits.frame_bytes_max)
        elif header_size > limits.header_bytes_max:
            self._excess = frame.beyond("header", header_size, limits.header_bytes_max)
        else:
            return 4 + int(length)
        return frame.PREFIX_BYTES + header_size

    def _take_frame(self) -> RemotingCommand:
        """What the buffer holds: a whole frame, or one without its body, of which `_need` then says how large it is."""
        buffer = self._buffer
        self._buffer = bytearray()
        view = memoryview(buffer)
        length, word = _PREFIX.unpack_from(buffer)
        body_at = 8 + (word & 0xFF_FFFF)
        self._need = 4 + length - body_at
        return frame.open_header(word >> 24, bytes(view[8:body_at]), bytes(view[body_at:]))

    def _match(self, commands: list[RemotingCommand]) -> list[tuple[T | None, RemotingCommand]]:
        matched: list[tuple[T | None, RemotingCommand]] = []
        for command in commands:
            if not command.flag & ANSWER_BIT:
                matched.append((None, command))
            elif command.number in self._waiting:
                matched.append((self._waiting.pop(command.number), command))
            else:
                self.strays += 1
        return matched

    # Endings

    def forget(self, number: int) -> T | None:
        """Stop waiting for an answer; the token, unless it was answered already."""
        return self._waiting.pop(number, None)

    def close(self) -> list[T]:
        """Everyone who still waits, in the order of asking. Nothing is accepted from here on."""
        if self._end is None:
            self._end = "closed by us"
        tokens = list(self._waiting.values())
        self._waiting.clear()
        self._buffer.clear()
        return tokens

    @property
    def waiting(self) -> int:
        """Requests under way."""
        return len(self._waiting)

    @property
    def is_mid_frame(self) -> bool:
        """Whether a frame has begun and not ended: the shell bounds how long that may last."""
        return bool(self._buffer) or self._skip is not None

    @property
    def buffered(self) -> int:
        """How much of it is here."""
        return len(self._buffer)

    @property
    def lacking(self) -> int:
        """How many of its bytes are to come before there is anything to decide; 0 between frames."""
        if self._skip is not None:
            return self._skip[0]
        return self._need - len(self._buffer) if self._buffer else 0

    def __repr__(self) -> str:
        state = f"ended: {self._end}" if self._end else "open"
        return f"<Connection {state} waiting={self.waiting} strays={self.strays} buffered={len(self._buffer)}B>"
