"""Inquiries: what administrators ask of a broker, asked by a member about its own group."""

from __future__ import annotations

from framework.client.routes import RouteTable
from framework.net.channel import raise_for
from framework.net.pool import Pool
from framework.wire.bodies.connections import ConsumerConnections
from framework.wire.bodies.running import RunningInfo
from framework.wire.command import Command
from framework.wire.fields import command_for
from framework.wire.requests.admin import ConsumerConnectionsRequest
from framework.wire.requests.inbound import RunningInfoRequest

PATIENCE_MS = 10_000  # the broker asks the member, and waits for it


class Inquiries:
    """Of one cluster. Each raises what the client raises."""

    def __init__(self, pool: Pool, routes: RouteTable) -> None:
        self._pool, self._routes = pool, routes

    async def connections(self, group: str, topic: str) -> ConsumerConnections:
        """The group's members as the first broker of the topic lists them, each connection for itself."""
        answer = await self._ask(topic, command_for(ConsumerConnectionsRequest(consumer_group=group)))
        return ConsumerConnections.decode(answer.body)

    async def running_info(self, group: str, topic: str, client_id: str) -> RunningInfo:
        """What a member says of itself, by way of that broker."""
        header = RunningInfoRequest(consumer_group=group, client_id=client_id)
        return RunningInfo.decode((await self._ask(topic, command_for(header))).body)

    async def _ask(self, topic: str, request: Command) -> Command:
        if not self._routes.brokers_of(topic):
            await self._routes.queues(topic)
        broker = next(iter(self._routes.brokers_of(topic)), topic)
        answer = await self._pool.request(self._routes.address_of(broker), request, timeout_ms=PATIENCE_MS)
        return raise_for(answer, request.code, broker)
