"""Inquiries: what administrators ask of a broker, asked by a member about its own group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar
from zlib import crc32

from framework.client.routes import RouteTable
from framework.core.broker_time import Reading
from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, Refused, shorten
from framework.model.subscription import Subscription
from framework.net.pool import Pool
from framework.wire.bodies.config import KeyValues
from framework.wire.bodies.group import ConsumerList
from framework.wire.bodies.heartbeat import CheckClientConfig, SubscriptionData
from framework.wire.bodies.route import MASTER
from framework.wire.bodies.running import RunningInfo
from framework.wire.exchanges import Exchange, body_of, nothing
from framework.wire.requests.admin import BrokerRuntimeRequest
from framework.wire.requests.group import CheckClientConfigRequest, MembersRequest
from framework.wire.requests.inbound import RunningInfoRequest

T = TypeVar("T")

CLOCK_MS = CHECK_MS = 3_000
_SINCE = re.compile(r"\[ ([\d,]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
PATIENCE_MS = 10_000  # the broker asks the member, and waits for it


class Inquiries:
    """Of one cluster. Each raises what the client raises."""

    def __init__(self, pool: Pool, routes: RouteTable) -> None:
        self._pool, self._routes = pool, routes

    async def listed(self, group: str, topic: str) -> Sequence[str]:
        """The client ids of the group's members as a broker of the topic lists them, one per connection."""
        header = MembersRequest(consumer_group=group)
        return (await self._ask(topic, Exchange(header, body_of(ConsumerList)))).consumer_ids

    async def running_info(self, group: str, topic: str, client_id: str) -> RunningInfo:
        """What a member says of itself, by way of a broker: for each member another one, the same for all who ask."""
        header = RunningInfoRequest(consumer_group=group, client_id=client_id)
        return await self._ask(topic, Exchange(header, body_of(RunningInfo)), first=crc32(client_id.encode()))

    async def clock(self, address: str) -> Reading:
        """What time it is by a broker's wall clock, at the moment at which it answers."""
        figures = Exchange(BrokerRuntimeRequest(), body_of(KeyValues))
        answer = await self._pool.request(address, figures.request(), timeout_ms=CLOCK_MS)
        return clock_in(figures.result(answer, address).table, address)

    async def check_filter(self, broker: str, group: str, client_id: str, subscription: Subscription) -> None:
        """Raise Refused where this broker cannot filter so: it is not made to, or finds a mistake of its own."""
        wanted = SubscriptionData.of(subscription)
        body = CheckClientConfig(client_id=client_id, group=group, subscription=wanted).encode()
        checking = Exchange(CheckClientConfigRequest(), nothing, body)
        address = self._routes.address_of(broker)
        checking.result(await self._pool.request(address, checking.request(), timeout_ms=CHECK_MS), broker)

    def addresses(self) -> list[str]:
        """The masters', whose clocks date what is stored."""
        return self._routes.masters()

    def find(self, broker: str) -> str | None:
        """The address of this one's master, where a route names it."""
        return self._routes.find(broker, MASTER)

    async def _ask(self, topic: str, exchange: Exchange[T], first: int = 0) -> T:
        if not self._routes.brokers_of(topic):
            await self._routes.queues(topic)
        last: FrameworkError | None = None
        brokers = self._routes.brokers_of(topic) or [topic]
        at = first % len(brokers)
        for broker in brokers[at:] + brokers[:at]:
            try:
                address = self._routes.address_of(broker)
                answer = await self._pool.request(address, exchange.request(), timeout_ms=PATIENCE_MS)
                return exchange.result(answer, broker)
            except (BrokerUnreachable, Refused) as error:  # one that was restarted knows only who has come back
                last = last or error
        assert last is not None, "one was asked"
        raise last


def clock_in(figures: Mapping[str, str], broker: str) -> Reading:
    """A built-in broker says it; a stock broker says when it began, and in whole seconds how long ago that was."""
    exact = figures.get("currentTimestamp", "")
    if exact.isdecimal():
        return Reading(int(exact), int(exact))
    began, since = figures.get("bootTimestamp", ""), _SINCE.fullmatch(figures.get("runtime", ""))
    if not began.isdecimal() or since is None:
        raise ProtocolError(f"no time in bootTimestamp={shorten(began)} and runtime={shorten(str(since))}", peer=broker)
    days, hours, minutes, seconds = (int(each.replace(",", "")) for each in since.groups())
    low = int(began) + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    return Reading(low, low + 999)
