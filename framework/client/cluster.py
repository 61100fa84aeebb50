"""Cluster: one cluster as one application reaches it: connections, name servers, routes, brokers. Wiring only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from framework.client.brokers import BrokerCalls, Brokers
from framework.client.dialogue.checks import Checks
from framework.client.dialogue.introductions import Introductions
from framework.client.dialogue.replies import Replies
from framework.client.dialogue.requests import Requests
from framework.client.fences import Fences
from framework.client.first_commits import FirstCommits
from framework.client.inquiries import Inquiries
from framework.client.name_server import NameServer
from framework.client.options import ClusterOptions
from framework.client.popper import Popper
from framework.client.pulling import Puller
from framework.client.retry_copies import RetryCopies
from framework.client.retry_rooms import RetryRooms
from framework.client.routes import RouteTable
from framework.core import limits
from framework.model.queue import MessageQueue
from framework.model.subscription import Start, Subscription
from framework.net.channel import Channel
from framework.net.pool import Pool
from framework.ports import World
from framework.wire.codes import RequestCode, ResponseCode, request_name
from framework.wire.command import RemotingCommand

if TYPE_CHECKING:
    from framework.client.producing.told import SendHooks


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
        send_hooks: SendHooks | None = None,
        state: Callable[[], str] = lambda: "the connections were closed",
    ) -> None:
        """`state`: what has become of whoever it belongs to, for those who use it when it is closed."""
        self.world, self.options, self.state = world, options, state
        self.is_closed = False
        self.send_hooks = send_hooks
        """Whom the producers over this cluster tell what they send."""
        self.loop = asyncio.get_running_loop()
        self.pool = Pool(
            world,
            tls=options.tls,
            credentials=options.credentials,
            address_map=options.address_map,
            allow=options.allow,
            trusted=options.name_servers,
            on_request=self._requested,
            on_connected=on_connected,
            on_disconnected=self._disconnected,
        )
        self._on_request, self._on_disconnected = on_request, on_disconnected
        self.names = NameServer(self.pool, options.name_servers, world.chance, timeout_ms=options.request_timeout_ms)
        self.routes = RouteTable(self.names, world.chance, self.pool.contact)
        self.inquiries = Inquiries(self.pool, self.routes)
        self.fences = Fences()
        self.calls = BrokerCalls(self.pool, self.routes, timeout_ms=options.request_timeout_ms)
        self.first_commits = FirstCommits()
        self.brokers = Brokers(self.pool, self.routes, self.calls, self.fences, self.first_commits)
        self.retry_rooms = RetryRooms(self.pool, self.routes, timeout_ms=options.request_timeout_ms)
        self.retry_copies = RetryCopies(self.calls, self.routes, self.retry_rooms)
        self.introductions = Introductions(self.brokers, self.routes, options.client_id)
        self.checks = Checks(world.workers, options.namespace)
        self.requests = Requests(self.introductions, self.routes, world.chance, options.client_id)
        self.replies = Replies(self.pool, self.routes, world.chance, world.clock, world.identity)
        self._told: dict[int, Callable[[Channel, RemotingCommand], None]] = {
            RequestCode.CHECK_TRANSACTION_STATE: self.checks.take,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self.requests.take,
        }

    def puller(
        self, group: str, subscription: Subscription, queue: MessageQueue, *, batch: int = limits.PULL_BATCH
    ) -> Puller:
        """The pulls of one queue."""
        return Puller(self.pool, self.routes, group, subscription, queue, self.first_commits, batch=batch)

    def popper(
        self,
        group: str,
        subscription: Subscription,
        queue: MessageQueue,
        start: Start,
        *,
        batch: int,
        invisible_ms: int,
    ) -> Popper:
        """The pops of one queue, or of all of a broker."""
        return Popper(self.calls, group, subscription, queue, start, batch=batch, invisible_ms=invisible_ms)

    def pause_pulls(self, *, paused: bool) -> None:
        """Stop reading from the connections for pulls, or go on; heartbeats and commits have others."""
        self.pool.pause_pulls(paused=paused)

    def _requested(self, channel: Channel, command: RemotingCommand) -> None:
        """What is for producers goes to them, all else to whom this cluster was made for."""
        taken = self._told.get(command.code, self._on_request)
        if taken is not None:
            taken(channel, command)
            return
        remark = f"{request_name(command.code)} is not supported by this client"
        channel.answer(command, RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))

    def _disconnected(self, address: str) -> None:
        self.introductions.disconnected(address)
        if self._on_disconnected is not None:
            self._on_disconnected(address)

    def counted_replies(self) -> dict[str, int]:
        """What became of replies to others' requests, and those to our own that came too late."""
        return {"sent": self.replies.sent, "dropped": self.replies.dropped, "late": self.requests.late}

    async def close(self) -> None:
        """Close every connection; whoever waits gets a ConnectionLost."""
        self.is_closed = True
        self.requests.close()
        await self.checks.close()
        await self.retry_rooms.close()
        await self.routes.close()
        await self.pool.close()

    def __repr__(self) -> str:
        return f"<Cluster {', '.join(self.options.name_servers)} {self.routes}>"
