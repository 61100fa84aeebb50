"""Listener: a port that turns accepted connections into channels, for the broker. It knows no request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import structlog

from framework.net.served import Served
from framework.net.shared_limits import SharedLimits
from framework.net.turns import Turns
from framework.ports import Listening, World
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.connection import Limits

log = structlog.get_logger()

CHANNELS_MAX = 256
VIP_DISTANCE = 2  # MixAll.brokerVIPChannel
FREE_PORTS_TRIED = 16
CLOSE_SECONDS = 1.0  # for the last answers to get out
REQUEST_LIMITS = Limits()
UNSENT_BYTES_MAX = 8 * 1024 * 1024  # what one slow reader may make us hold
# Of the connections to a port, those who have not shown that they may be there; the rest is kept for those who have.
STRANGERS_SHARE = 0.75
# Who has sent nothing for so long, twice what any client's heartbeat takes, gives its place to who comes.
IDLE_SECONDS = 60.0
IDLE_LOOK_SECONDS = 1.0  # between two looks for such a one in vain
# Above the limit a connection is let in to be told so: a closed one says nothing, and clients dial again at once.
REFUSED_MAX = 64
REFUSED_SECONDS = 3.0  # to ask for something, as every client does when it has connected
TOLD_SECONDS = 0.2  # for the answer to be read: closing at once, with more of its requests unread, could take it away


class Listener:
    """One listening port and the channels that came in by it, in the order in which they came."""

    def __init__(
        self,
        world: World,
        host: str,
        port: int,
        *,
        on_request: Callable[[Served, RemotingCommand], None],
        on_open: Callable[[Served], None] | None = None,
        on_closed: Callable[[Served], None] | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits = REQUEST_LIMITS,
        channels_max: int = CHANNELS_MAX,
        refused_max: int = REFUSED_MAX,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
        shared: SharedLimits | None = None,
        prove_seconds: float | None = None,
        with_vip: bool = False,
    ) -> None:
        """Beside `channels_max` connections up to `refused_max` are told that there is no room.

        With `prove_seconds`, who has asked for nothing by then that he may have is closed.

        `with_vip` has it listen two ports lower as well, where Java clients with vipChannelEnabled go.
        """
        self._world, self._host, self._port, self._tls = world, host, port, tls
        self._on_request, self._on_open, self._on_closed = on_request, on_open, on_closed
        self._limits, self._unsent_bytes_max = limits, unsent_bytes_max
        self._channels_max, self._refused_max = channels_max, refused_max
        self._shared = shared or SharedLimits(Turns())
        self._prove_seconds = prove_seconds
        share = channels_max if prove_seconds is None else int(channels_max * STRANGERS_SHARE)
        self._strangers_max = max(share, 1)
        self._strangers: dict[Served, asyncio.TimerHandle | None] = {}
        self._channels: dict[Served, None] = {}
        self._refused: dict[Served, asyncio.TimerHandle] = {}
        self._with_vip = with_vip
        self._listening: list[Listening] = []
        self._is_full = False
        self._none_idle_until = 0.0

    async def start(self) -> int:
        """Listen; answers the port, which is any free one where 0 was asked for. Raises OSError as the system does."""
        assert not self._listening, "a listener starts once"
        first = await self._listen(self._port)
        vip = await self._listen_for_vip(first.port)
        for _ in range(FREE_PORTS_TRIED):
            if vip is not None or self._port or not self._with_vip:
                break
            # Any port will do, so one is looked for whose VIP port is free.
            await first.close()
            first = await self._listen(0)
            vip = await self._listen_for_vip(first.port)
        self._listening = [first] if vip is None else [first, vip]
        return first.port

    async def _listen(self, port: int) -> Listening:
        return await self._world.network.listen(self._make, self._host, port, tls=self._tls)

    async def _listen_for_vip(self, port: int) -> Listening | None:
        try:
            return await self._listen(port - VIP_DISTANCE) if self._with_vip and port > VIP_DISTANCE else None
        except OSError as error:
            if self._port:
                reason = f"Java clients with vipChannelEnabled are not served ({error.strerror or error})"
                log.warning("VIP port taken", port=port - VIP_DISTANCE, reason=reason)
            return None

    def _make(self) -> Served:
        return Served(
            self._shared,
            limits=self._limits,
            on_request=self._on_request,
            on_arrived=self._arrived,
            on_open=self._opened,
            unsent_bytes_max=self._unsent_bytes_max,
        )

    def _arrived(self, channel: Served) -> None:
        """Count it before it costs anything, a TLS handshake say."""
        is_full = len(self._channels) >= self._channels_max
        if is_full or len(self._strangers) >= self._strangers_max:
            self._make_room(is_full=is_full)
        if len(self._channels) >= self._channels_max:
            if not self._is_full:
                self._is_full = True
                log.warning("connections refused", port=self._port, peer=channel.peer, limit=self._channels_max)
            self._refuse(channel)
            return
        self._channels[channel] = None
        self._strangers[channel] = None if self._prove_seconds is None else self._deadline(channel, self._prove_seconds)
        channel.on_proven = self._proven
        channel.closed.add_done_callback(lambda _: self._ended(channel))

    def _opened(self, channel: Served) -> None:
        if self._on_open is not None and channel in self._channels:
            self._on_open(channel)

    def _make_room(self, *, is_full: bool) -> None:
        """Who came first of those that have shown nothing yet goes: he had most time for it. Else who is idle."""
        first = next(iter(self._strangers), None)
        if first is None and is_full:
            first = self._idlest()
        if first is not None:
            self._proven(first)
            del self._channels[first]
            first.abort("it asked for nothing, and others wait for its place")

    def _idlest(self) -> Served | None:
        """Who has sent nothing for longest, if for long enough. All are looked at, but not for each that comes."""
        now = asyncio.get_running_loop().time()
        if now < self._none_idle_until:
            return None
        first = min(self._channels, key=lambda each: each.heard_at)
        if now - first.heard_at >= IDLE_SECONDS:
            return first
        self._none_idle_until = now + IDLE_LOOK_SECONDS
        return None

    def _deadline(self, channel: Served, seconds: float) -> asyncio.TimerHandle:
        reason = f"no request with a valid signature within {seconds:g} s"
        return asyncio.get_running_loop().call_later(seconds, channel.abort, reason)

    def _proven(self, channel: Served) -> None:
        timer = self._strangers.pop(channel, None)
        if timer is not None:
            timer.cancel()

    def _refuse(self, channel: Served) -> None:
        """Answer its first requests that the broker is busy, then close; it counts as no connection."""
        reason = f"{self._channels_max} connections are open, the limit"
        if len(self._refused) >= self._refused_max:
            channel.close(reason)
            return

        def close_in(seconds: float) -> None:
            self._refused[channel] = asyncio.get_running_loop().call_later(seconds, channel.close, reason)

        def tell(_: object, command: RemotingCommand) -> None:
            channel.answer(
                command, RemotingCommand(ResponseCode.SYSTEM_BUSY, remark=f"[OVERLOAD] {reason}; try again later")
            )

        def tell_first(_: object, command: RemotingCommand) -> None:
            tell(_, command)
            if not command.is_one_way:
                channel.on_request = tell
                self._refused[channel].cancel()
                close_in(TOLD_SECONDS)

        channel.on_request = tell_first
        close_in(REFUSED_SECONDS)
        channel.closed.add_done_callback(lambda _: self._refused.pop(channel).cancel())

    def _ended(self, channel: Served) -> None:
        self._proven(channel)
        self._channels.pop(channel, None)
        if self._is_full and len(self._channels) < self._channels_max * 9 // 10:
            self._is_full = False
            log.info("connections accepted again", port=self._port)
        if self._on_closed is not None:
            self._on_closed(channel)

    @property
    def channels(self) -> tuple[Served, ...]:
        """The open ones, oldest first."""
        return tuple(self._channels)

    async def close(self, reason: str = "the listener was closed") -> None:
        """Accept no more, then close every channel and wait until the last has ended."""
        for listening in self._listening:
            await listening.close()
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
