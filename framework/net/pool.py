"""Pool: per address one channel for requests and another for pulls, connected when first asked for.

Pulls have their own so that reading can be paused when too much was pulled, while heartbeats and commits go on. Members
of a group are keyed by connection, so whatever makes a member goes by "requests".

It owns connecting: shared attempts, back-off, where an address really leads, which addresses may be dialled. A failed
address is not dialled again before its back-off is over; callers meanwhile get the last failure at once, so that they
can turn to another broker. What proves a peer is an answer that is no refusal, not the accepted connection: `connected`
is said then, and a connection that is closed without a word counts as a failure. It knows no request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import structlog

from framework import marks
from framework.errors import BrokerUnreachable, ConfigurationError, NotConnected, RequestTimedOut
from framework.mistakes import AddressNotAllowed
from framework.net import forks
from framework.net.address import Address, AllowList, parse_address
from framework.net.channel import DEFAULT_LIMITS, Channel
from framework.net.credentials import Credentials
from framework.net.route import Contact
from framework.net.task_tree import TaskTree
from framework.net.tls import SILENT_CLOSE_HINT, TlsOptions, client_context, handshake_trouble, said
from framework.ports import World
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.connection import Limits

log = structlog.get_logger()

Purpose: TypeAlias = Literal["requests", "pulls"]

CONNECT_SECONDS = 3.0  # as the Java client
BACKOFF_FIRST_SECONDS = 0.1
# A broker that is back is found within 10 s; one attempt each 10 s a client hurts nobody.
BACKOFF_MAX_SECONDS = 10.0
OF_NAME_SERVER = "check cluster.name_servers and cluster.tls.enabled; it is tried again until it answers"
OF_BROKER = "check that it runs, the address that it advertises (brokerIP1), and cluster.tls; it is tried again"
CLOSE_LOOK_SECONDS, CLOSE_SECONDS_MAX = 1.0, 10.0
CLOSED = "closed by this process"
# What a peer answers that lets nobody in: it is there, and nothing will come of it.
REFUSALS = (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION)
LINKS_MAX = 1_024  # above that, those without a connection are forgotten


class _Link:
    """One address and purpose: its channel, the attempt under way, or the last failure."""

    __slots__ = ("attempt", "channel", "failures", "has_ended", "reason", "since", "until", "was_heard")

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.since = 0.0
        """When that was opened."""
        self.attempt: asyncio.Future[Channel] | None = None
        self.has_ended = False
        """There was a channel before."""
        self.was_heard = False
        self.failures = 0
        self.until = 0.0
        """Not dialled before."""
        self.reason = ""

    def is_in_use(self, now: float) -> bool:
        return self.channel is not None or self.attempt is not None or self.until > now


@dataclass(slots=True)
class _Unproven:
    """Nobody has answered at an address, ever or since a connection there ended."""

    since: float
    is_away: bool = False
    """A connection ended, or could not be made: said on entering, and summed up on leaving."""
    tries: int = 0
    made: list[Purpose] = field(default_factory=list)
    """Connections that are said when it answers."""


class Pool:
    """All outgoing connections of one cluster."""

    def __init__(
        self,
        world: World,
        *,
        tls: TlsOptions | None = None,
        credentials: Credentials | None = None,
        address_map: Mapping[str, str] | None = None,
        allow: Iterable[str] = (),
        trusted: Iterable[str] = (),
        limits: Limits = DEFAULT_LIMITS,
        on_request: Callable[[Channel, RemotingCommand], None] | None = None,
        on_connected: Callable[[str], None] | None = None,
        on_disconnected: Callable[[str], None] | None = None,
    ) -> None:
        self._world = world
        self._tls = client_context(tls) if tls is not None else None
        self._server_name = tls.server_name if tls is not None else ""
        self._sign = credentials.sign if credentials is not None else None
        self._map = {
            str(parse_address(advertised, "address_map")): parse_address(reachable, "address_map")
            for advertised, reachable in (address_map or {}).items()
        }
        self._allow = AllowList(allow)
        self._trusted = {str(parse_address(address, "name server")) for address in trusted}
        """Addresses that the user gave, to which the allow list does not apply."""
        self._limits, self._on_request, self._on_connected = limits, on_request, on_connected
        self._on_disconnected = on_disconnected
        self._links: dict[tuple[str, Purpose], _Link] = {}
        self._unproven: dict[str, _Unproven] = {}
        self._tree = TaskTree()
        self.pulls_paused = False
        self._parent: int | None = None
        """Whose connections these are, where this process was forked from theirs."""
        forks.tell(self)
        self._is_closed = False

    # Channels

    def open_channel(self, address: str, purpose: Purpose = "requests") -> Channel | None:
        """The channel where there is one now: the hot path's look, without awaiting."""
        link = self._links.get((address, purpose))
        if link is None or link.channel is None or not link.channel.is_open:
            return None
        return link.channel

    def ready_channel(self, address: str) -> Channel | None:
        """The channel for requests, where a request to this address waits for nothing but its answer."""
        return None if self.is_away(address) else self.open_channel(address)

    def is_away(self, address: str) -> bool:
        """Whether nobody has answered there since a connection ended or could not be made, which was said then."""
        found = self._unproven.get(address)
        return found is not None and found.is_away

    async def channel(self, address: str, purpose: Purpose = "requests") -> Channel:
        """An open channel, connecting first where needed. Raises BrokerUnreachable, ConfigurationError."""
        channel = self.open_channel(address, purpose)
        if channel is not None:
            return channel
        if self._is_closed:
            raise _closed(address)
        if self._parent is not None:
            raise forks.misused(f"the connection to {address}", self._parent)
        link = self._links.get((address, purpose)) or self._new_link(address, purpose)
        if link.attempt is None:
            wait = link.until - self._now()
            if wait > 0:
                marks.sometimes("an address was left alone until its back-off was over")
                raise NotConnected(f"{address}: {link.reason}; tried again in {wait:.1f} s")
            # A future beside the task: a caller that is cancelled must not end the attempt of the others.
            link.attempt = asyncio.get_running_loop().create_future()
            self._tree.start(self._connect(address, purpose, link, link.attempt), name=f"connect {address} {purpose}")
        return await asyncio.shield(link.attempt)

    def _new_link(self, address: str, purpose: Purpose) -> _Link:
        if len(self._links) >= LINKS_MAX:  # brokers move for months, or a name server lies: forget who is not there
            now = self._now()
            self._links = {key: link for key, link in self._links.items() if link.is_in_use(now)}
            kept = {known for known, _ in self._links}
            self._unproven = {known: each for known, each in self._unproven.items() if known in kept}
        if all(known != address for known, _ in self._links):
            self._unproven[address] = _Unproven(self._now())
        link = self._links[address, purpose] = _Link()
        return link

    async def request(
        self, address: str, command: RemotingCommand, *, timeout_ms: int, purpose: Purpose = "requests"
    ) -> RemotingCommand:
        """The answer, whatever its code; sent once more on a fresh connection where the peer says to go away."""
        channel = await self.channel(address, purpose)
        try:
            answer = await channel.request(command, timeout_ms=timeout_ms)
            if answer.code == ResponseCode.GO_AWAY:
                channel = await self.channel(address, purpose)
                answer = await channel.request(command, timeout_ms=timeout_ms)
        except RequestTimedOut as error:
            # A silence that ends the connection is said once, here, and not by each whose request it was.
            error.is_said = channel.close_reason is not None or self.is_away(address)
            raise
        if self._unproven and address in self._unproven and answer.code not in REFUSALS:
            self._is_proven(address, purpose)
        return answer

    def is_connected(self, address: str) -> bool:
        """Whether requests could be sent there now."""
        return self.open_channel(address) is not None

    def connected_ms(self, address: str) -> int:
        """How old the connection for requests is; 0 where there is none."""
        return int((self._now() - self._links[address, "requests"].since) * 1000) if self.is_connected(address) else 0

    def contact(self, address: str) -> Contact | None:
        """Whether somebody is there, and since when; None where nobody ever was."""
        links = [link for (known, _), link in self._links.items() if known == address]
        open_since = [link.since for link in links if link.channel is not None and link.channel.is_open]
        if open_since:
            return Contact(min(open_since), is_open=True)
        found = self._unproven.get(address)
        return Contact(found.since, is_open=False) if found is not None and found.is_away else None

    @property
    def is_shared(self) -> bool:
        """Whether these are another process's, from which this one was forked."""
        return self._parent is not None

    def forked(self, parent: int) -> None:
        """In a child: none of the connections is this process's."""
        self._parent, self._links = parent, {}

    # Connecting

    async def _connect(self, address: str, purpose: Purpose, link: _Link, attempt: asyncio.Future[Channel]) -> None:
        try:
            await marks.stretched("a connection is made")
            channel = await self._dial(address)
        except (BrokerUnreachable, ConfigurationError) as error:
            self._failed(address, link, str(error).removeprefix(f"{address}: "))
            _settle(attempt, error)
        else:
            link.channel, link.since = channel, self._now()
            channel.closed.add_done_callback(partial(self._ended, address, purpose, link, channel))
            if purpose == "pulls" and self.pulls_paused:
                channel.pause_reading()
            if (unproven := self._unproven.get(address)) is None:
                log.info("connected", peer=address, purpose=purpose)
            elif purpose not in unproven.made:
                unproven.made.append(purpose)
            attempt.set_result(channel)
            if purpose == "requests" and self._on_connected is not None:
                self._on_connected(address)
            elif link.has_ended and self._on_disconnected is not None:
                # Who answers here may be another process than the one to which a channel for requests is half open.
                self._on_disconnected(address)
        finally:
            link.attempt = None
            _settle(attempt, _closed(address))  # cancelled, for the pool is being closed: nobody may wait for ever

    def _is_proven(self, address: str, purpose: Purpose) -> None:
        """Somebody has answered there: say what was connected, and for how long it was not."""
        for (known, _), link in self._links.items():
            if known == address:
                link.until = 0.0  # who takes one connection takes the other: nobody waits for it
        found = self._unproven.pop(address)
        after = {"after_ms": round((self._now() - found.since) * 1000), "tries": found.tries} if found.is_away else {}
        for each in found.made or [purpose]:
            log.info("connected", peer=address, purpose=each, **after)
            after = {}

    def _now_away(self, address: str) -> _Unproven:
        found = self._unproven.setdefault(address, _Unproven(self._now()))
        found.is_away = True
        return found

    async def _dial(self, address: str) -> Channel:
        advertised = parse_address(address, "broker address")
        target = self._map.get(str(advertised), advertised)
        is_trusted = str(advertised) in self._trusted
        if not is_trusted and self._allow.refuses(target.host):
            raise self._not_allowed(address, target.host)
        channel = Channel(address, limits=self._limits, sign=self._sign, on_request=self._on_request)
        expected = self._server_name or target.host
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._world.network.connect(
                    channel, target.host, target.port, tls=self._tls, server_name=expected if self._tls else None
                )
        except TimeoutError:
            channel.abort("connecting took too long")
            raise NotConnected(f"{address}: no connection{_via(advertised, target)} in {CONNECT_SECONDS:g} s") from None
        except (OSError, ValueError) as error:  # ValueError: a host name that cannot be encoded
            trouble = handshake_trouble(error, expected) if self._tls is not None else None
            raise NotConnected(f"{address}: {trouble or said(error)}{_via(advertised, target)}") from error
        except asyncio.CancelledError:
            channel.abort("connecting was given up")
            raise
        if (
            not is_trusted
            and self._allow.refuses(target.host) is None
            and self._allow.refuses_peer(channel.remote_host)
        ):
            channel.abort("not allowed")
            raise self._not_allowed(address, f"{target.host} ({channel.remote_host})")
        return channel

    def _not_allowed(self, address: str, host: str) -> ConfigurationError:
        return AddressNotAllowed(f"{address}: {self._allow.reason(host)}")

    def _ended(self, address: str, purpose: Purpose, link: _Link, channel: Channel, _: asyncio.Future[None]) -> None:
        if link.channel is channel:
            link.channel = None
        link.has_ended, link.was_heard = True, link.was_heard or channel.has_heard
        reason = channel.close_reason or "closed"
        if self._was_heard(address):
            reason = reason.removesuffix(SILENT_CLOSE_HINT)  # it was a broker until now
        told = log.debug if address in self._unproven else log.info
        told("disconnected", peer=address, purpose=purpose, reason=reason)
        if channel.has_heard and not channel.is_faulty:
            link.failures = 0
            self._now_away(address)
        elif not self._is_closed:
            self._failed(address, link, reason)
        if self._on_disconnected is not None and not self._is_closed:
            self._on_disconnected(address)

    def _was_heard(self, address: str) -> bool:
        found = [link for (known, _), link in self._links.items() if known == address]
        return any(link.was_heard or (link.channel is not None and link.channel.has_heard) for link in found)

    def _failed(self, address: str, link: _Link, reason: str) -> None:
        ceiling = min(BACKOFF_FIRST_SECONDS * 2.0 ** min(link.failures, 20), BACKOFF_MAX_SECONDS)
        # Half certain, half drawn, so that members that lost a broker together do not come back together.
        link.until = self._now() + ceiling * (0.5 + 0.5 * self._world.chance.random())
        link.failures += 1
        link.reason = reason
        away = self._now_away(address)
        away.tries += 1
        if away.tries == 1:
            remedy = OF_NAME_SERVER if address in self._trusted else OF_BROKER
            log.warning("not connected", peer=address, reason=reason, remedy=remedy)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # All of them

    def pause_pulls(self, *, paused: bool) -> None:
        """Leave what was pulled in the network while there is no room for it here, or read on."""
        self.pulls_paused = paused
        for (_, purpose), link in self._links.items():
            if purpose == "pulls" and link.channel is not None:
                if paused:
                    link.channel.pause_reading()
                else:
                    link.channel.resume_reading()

    async def close(self) -> None:
        """Close every channel; whoever waits gets a ConnectionLost."""
        self._is_closed = True
        await self._tree.close()
        for (address, _), link in self._links.items():
            if link.attempt is not None:  # cancelled before its first step
                _settle(link.attempt, _closed(address))
        channels = [link.channel for link in self._links.values() if link.channel is not None]
        for channel in channels:
            channel.close(CLOSED)
        await self._written_out(channels)

    async def _written_out(self, channels: Sequence[Channel]) -> None:
        """What was written leaves while its peer takes in bytes: each second some, or the rest is given up."""
        until = self._now() + CLOSE_SECONDS_MAX
        left = [(channel, channel.unwritten) for channel in channels]
        while left:
            look = min(self._now() + CLOSE_LOOK_SECONDS, until)
            for channel, _ in left:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(look):
                        await asyncio.shield(channel.closed)
            behind = [(channel, before) for channel, before in left if not channel.closed.done()]
            left = []
            for channel, before in behind:
                if look < until and channel.unwritten < before:
                    left.append((channel, channel.unwritten))
                else:
                    channel.abort(CLOSED)

    def __repr__(self) -> str:
        links = (f"{address} {purpose} {link.channel or 'away'}" for (address, purpose), link in self._links.items())
        return f"<Pool {', '.join(links) or 'empty'}>"


def _settle(attempt: asyncio.Future[Channel], error: Exception) -> None:
    if not attempt.done():
        attempt.set_exception(error)
        attempt.exception()  # looked at: every caller may have gone


def _closed(address: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"{address}: the connections of this process were closed")


def _via(advertised: Address, target: Address) -> str:
    return "" if target == advertised else f" (by way of {target})"
