"""Listener: a port that turns accepted connections into channels, for the broker. It knows no request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from framework.net.channel import DEFAULT_LIMITS, Channel
from framework.ports import Listening, World
from framework.wire.codes import ResponseCode
from framework.wire.command import Command
from framework.wire.connection import Limits

log = structlog.get_logger()

CHANNELS_MAX = 256
CLOSE_SECONDS = 1.0  # for the last answers to get out
UNSENT_BYTES_MAX = 8 * 1024 * 1024  # what one slow reader may make us hold
COLLECTED_BYTES_MAX = 64 * 1024
# Above the limit a connection is let in to be told so: a closed one says nothing, and clients dial again at once.
REFUSED_MAX = 64
REFUSED_SECONDS = 3.0  # to ask for something, as every client does when it has connected
TOLD_SECONDS = 0.2  # for the answer to be read: closing at once, with more of its requests unread, could take it away


class Unread:
    """What all connections together have not taken in of their answers; one for the ports of a process.

    Only those that are behind are looked at. The others have at most the transport's high-water mark of 64 KiB each.
    """

    def __init__(self) -> None:
        self.behind: dict[_Served, None] = {}

    @property
    def bytes(self) -> int:
        return sum(channel.unread_bytes for channel in self.behind)


class _Served(Channel):
    """An accepted connection. Answers of one turn of the loop leave in one write.

    A commit answers all who shared it, and a system call costs as much as a third of a send. More than the transport
    would hold by itself is not collected, so that what nobody reads is seen.
    """

    unread: Unread
    _collected_bytes = 0

    def answer(self, request: Command, answer: Command) -> None:
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

    def _end(self, reason: str, *, abort: bool, cause: Exception | None = None) -> None:
        self._flush()
        super()._end(reason, abort=abort, cause=cause)

    @property
    def unread_bytes(self) -> int:
        return int(self._transport.get_write_buffer_size())

    def pause_writing(self) -> None:
        self.unread.behind[self] = None
        super().pause_writing()

    def resume_writing(self) -> None:
        self.unread.behind.pop(self, None)
        super().resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self.unread.behind.pop(self, None)
        super().connection_lost(error)


class Listener:
    """One listening port and the channels that came in by it, in the order in which they came."""

    def __init__(
        self,
        world: World,
        host: str,
        port: int,
        *,
        on_request: Callable[[Channel, Command], None],
        on_open: Callable[[Channel], None] | None = None,
        on_closed: Callable[[Channel], None] | None = None,
        tls: Any = None,
        limits: Limits = DEFAULT_LIMITS,
        channels_max: int = CHANNELS_MAX,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
        unread: Unread | None = None,
    ) -> None:
        self._world, self._host, self._port, self._tls = world, host, port, tls
        self._on_request, self._on_open, self._on_closed = on_request, on_open, on_closed
        self._limits, self._channels_max, self._unsent_bytes_max = limits, channels_max, unsent_bytes_max
        self._unread = unread or Unread()
        self._channels: dict[Channel, None] = {}
        self._refused: dict[Channel, asyncio.TimerHandle] = {}
        self._listening: Listening | None = None
        self._is_full = False

    async def start(self) -> int:
        """Listen; answers the port, which is any free one where 0 was asked for. Raises OSError as the system does."""
        assert self._listening is None, "a listener starts once"
        self._listening = await self._world.network.listen(self._make, self._host, self._port, tls=self._tls)
        return self._listening.port

    def _make(self) -> Channel:
        channel = _Served(
            limits=self._limits,
            on_request=self._on_request,
            on_open=self._opened,
            unsent_bytes_max=self._unsent_bytes_max,
        )
        channel.unread = self._unread
        return channel

    def _opened(self, channel: Channel) -> None:
        if len(self._channels) >= self._channels_max:
            if not self._is_full:
                self._is_full = True
                log.warning("connections refused", port=self._port, peer=channel.peer, limit=self._channels_max)
            self._refuse(channel)
            return
        self._channels[channel] = None
        channel.closed.add_done_callback(lambda _: self._ended(channel))
        if self._on_open is not None:
            self._on_open(channel)

    def _refuse(self, channel: Channel) -> None:
        """Answer its first requests that the broker is busy, then close; it counts as no connection."""
        reason = f"{self._channels_max} connections are open, the limit"
        if len(self._refused) >= REFUSED_MAX:
            channel.close(reason)
            return

        def close_in(seconds: float) -> None:
            self._refused[channel] = asyncio.get_running_loop().call_later(seconds, channel.close, reason)

        def tell(_: Channel, command: Command) -> None:
            channel.answer(command, Command(ResponseCode.SYSTEM_BUSY, remark=f"[OVERLOAD] {reason}; try again later"))

        def tell_first(_: Channel, command: Command) -> None:
            tell(_, command)
            if not command.is_one_way:
                channel.on_request = tell
                self._refused[channel].cancel()
                close_in(TOLD_SECONDS)

        channel.on_request = tell_first
        close_in(REFUSED_SECONDS)
        channel.closed.add_done_callback(lambda _: self._refused.pop(channel).cancel())

    def _ended(self, channel: Channel) -> None:
        self._channels.pop(channel, None)
        if self._is_full and len(self._channels) < self._channels_max * 9 // 10:
            self._is_full = False
            log.info("connections accepted again", port=self._port)
        if self._on_closed is not None:
            self._on_closed(channel)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The open ones, oldest first."""
        return tuple(self._channels)

    async def close(self, reason: str = "the listener was closed") -> None:
        """Accept no more, then close every channel and wait until the last has ended."""
        if self._listening is not None:
            await self._listening.close()
        for channel in (*self.channels, *self._refused):
            channel.close(reason)
        loop = asyncio.get_running_loop()
        until = loop.time() + CLOSE_SECONDS
        for channel in self.channels:
            try:
                async with asyncio.timeout_at(until):
                    await asyncio.shield(channel.closed)
            except TimeoutError:
                channel.abort(reason)  # it does not read what we wrote
                await asyncio.shield(channel.closed)

    def __repr__(self) -> str:
        return f"<Listener {self._host}:{self._port} channels={len(self._channels)}>"
