"""Presence: tells brokers that a producer is there, so that administrators see it (mqadmin producerConnection).

Only brokers that it is connected to anyway hear of it: at once when a connection is new, then each 30 s. Replies and
checks come to whom brokers know. `dialogue/introductions.py` sees to that before something is sent that they answer, so
a heartbeat that fails is not repeated before the next one is due. The application's are `services/heartbeat.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from framework.client.cluster import Cluster
from framework.core import limits
from framework.errors import FrameworkError
from framework.net.wakeup import Wakeup
from framework.wire.bodies.heartbeat import Heartbeat, ProducerData

log = structlog.get_logger()


class Presence:
    """One per producer that has a cluster of its own. Its owner runs `run` as a task."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._bell = Wakeup()
        self._told: dict[str, None] = {}
        """Who was told by the connection that is open now."""

    def connected(self, address: str) -> None:
        """A fresh connection knows nothing of us."""
        self._told.pop(address, None)
        self._bell.ring()

    async def run(self, cluster: Cluster) -> None:
        # A name server may be a broker, too, as the built-in one is: it is connected before a route says so.
        cluster.routes.on_change(lambda _: self._bell.ring())
        now = asyncio.get_running_loop().time
        due = now() + limits.HEARTBEAT_MS / 1000
        while True:
            await self._bell.wait(due)
            is_due = now() >= due
            if is_due:
                due = now() + limits.HEARTBEAT_MS / 1000
            for address in cluster.routes.masters():
                if (is_due or address not in self._told) and cluster.pool.is_connected(address):
                    await self._beat(cluster, address)

    async def _beat(self, cluster: Cluster, address: str) -> None:
        self._told[address] = None
        producers = tuple(ProducerData(group=group) for group in self._groups(cluster))
        heartbeat = Heartbeat(client_id=cluster.options.client_id, producers=producers)
        try:
            await cluster.brokers.heartbeat(address, heartbeat)
        except FrameworkError as error:
            log.debug("producer heartbeat failed", group=self._group, broker=address, reason=str(error))

    async def leave(self, cluster: Cluster) -> None:
        """Brokers that were told forget it now, and not when they notice."""
        if self._told:
            await cluster.brokers.leave(cluster.options.client_id, self._groups(cluster), as_producer=True)

    def _groups(self, cluster: Cluster) -> Iterable[str]:
        """Its own, and those that it was introduced as a member of."""
        return dict.fromkeys((self._group, *cluster.introductions.groups))
