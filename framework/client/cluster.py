"""Cluster: one cluster as one application reaches it: connections, name servers, routes, brokers. Wiring only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from framework.client.brokers import Brokers
from framework.client.calls import BrokerCalls
from framework.client.fences import Fences
from framework.client.inquiries import Inquiries
from framework.client.name_server import NameServer
from framework.client.options import ClusterOptions
from framework.client.peeking import Peeks
from framework.client.pulling import Puller
from framework.client.retry_copies import RetryCopies
from framework.client.retry_rooms import RetryRooms
from framework.client.routes import RouteTable
from framework.core import limits
from framework.model.queue import MessageQueue
from framework.model.subscription import Subscription
from framework.net.channel import Channel
from framework.net.pool import Pool
from framework.ports import World
from framework.wire.command import RemotingCommand


class Cluster:
    """Make it inside the running loop. Nothing is connected before it is needed; its owner runs `routes.run()`."""

    def __init__(
        self,
        world: World,
        options: ClusterOptions,
        *,
        on_request: Callable[[Channel, RemotingCommand], None] | None = None,
        on_connected: Callable[[str], None] | None = None,
        on_disconnected: Callable[[str], None] | None = None,
    ) -> None:
        self.world, self.options = world, options
        self.loop = asyncio.get_running_loop()
        self.pool = Pool(
            world,
            tls=options.tls,
            credentials=options.credentials,
            address_map=options.address_map,
            allow=options.allow,
            trusted=options.name_servers,
            on_request=on_request,
            on_connected=on_connected,
            on_disconnected=on_disconnected,
        )
        self.names = NameServer(self.pool, options.name_servers, world.chance, timeout_ms=options.request_timeout_ms)
        self.routes = RouteTable(self.names, world.chance, self.pool.is_connected)
        self.inquiries = Inquiries(self.pool, self.routes)
        self.fences = Fences()
        self.calls = BrokerCalls(self.pool, self.routes, timeout_ms=options.request_timeout_ms)
        self.brokers = Brokers(self.pool, self.routes, self.calls, self.fences)
        self.retry_rooms = RetryRooms(self.pool, self.routes, timeout_ms=options.request_timeout_ms)
        self.retry_copies = RetryCopies(self.calls, self.routes, self.retry_rooms)
        self.peeks = Peeks(self.pool, self.routes, self.fences, timeout_ms=options.request_timeout_ms)

    def puller(
        self, group: str, subscription: Subscription, queue: MessageQueue, *, batch: int = limits.PULL_BATCH
    ) -> Puller:
        """The pulls of one queue."""
        return Puller(self.pool, self.routes, group, subscription, queue, batch=batch)

    def pause_pulls(self, *, paused: bool) -> None:
        """Stop reading from the connections for pulls, or go on; heartbeats and commits have others."""
        self.pool.pause_pulls(paused=paused)

    async def close(self) -> None:
        """Close every connection; whoever waits gets a ConnectionLost."""
        await self.retry_rooms.close()
        await self.routes.close()
        await self.pool.close()

    def __repr__(self) -> str:
        return f"<Cluster {', '.join(self.options.name_servers)} {self.routes}>"
