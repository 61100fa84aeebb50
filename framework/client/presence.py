"""Presence: tells brokers that a producer is there, so that administrators see it (mqadmin producerConnection).

Only brokers that it is connected to anyway hear of it: at once when a connection is new, then each 30 s. Nothing
depends on it, so a heartbeat that fails is not repeated before the next one is due. The application's own heartbeats
are `services/heartbeat.py`'s.
"""

from __future__ import annotations

import asyncio

import structlog

from framework.client.cluster import Cluster
from framework.errors import FrameworkError
from framework.net.wakeup import Wakeup
from framework.wire.bodies.heartbeat import Heartbeat, ProducerData

log = structlog.get_logger()

HEARTBEAT_SECONDS = 30.0  # as the Java client; the broker forgets a silent client after 120 s


class Presence:
    """One per producer that has a cluster of its own. Its owner runs `run` as a task."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._bell = Wakeup()
        self._new: dict[str, None] = {}
        """Connected since the last round, in order."""
        self._told: dict[str, None] = {}

    def connected(self, address: str) -> None:
        """A fresh connection knows nothing of us. Name servers are told apart when the round begins."""
        self._new[address] = None
        self._bell.ring()

    async def run(self, cluster: Cluster) -> None:
        now = asyncio.get_running_loop().time
        heartbeat = Heartbeat(client_id=cluster.options.client_id, producers=(ProducerData(group=self._group),))
        due = now() + HEARTBEAT_SECONDS
        while True:
            await self._bell.wait(due)
            wanted, self._new = self._new, {}
            if now() >= due:
                due = now() + HEARTBEAT_SECONDS
                wanted = {**self._told, **wanted}
            brokers = cluster.routes.masters()
            for address in wanted:
                if address in brokers and cluster.pool.is_connected(address):
                    await self._beat(cluster, address, heartbeat)

    async def _beat(self, cluster: Cluster, address: str, heartbeat: Heartbeat) -> None:
        self._told[address] = None
        try:
            await cluster.brokers.heartbeat(address, heartbeat)
        except FrameworkError as error:
            log.debug("producer heartbeat failed", group=self._group, broker=address, reason=str(error))

    async def leave(self, cluster: Cluster) -> None:
        """Brokers that were told forget it now, and not when they notice."""
        if self._told:
            await cluster.brokers.leave(cluster.options.client_id, [self._group], as_producer=True)
