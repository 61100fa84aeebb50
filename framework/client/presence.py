"""Presence: tells brokers that a producer is there, so that administrators see it (mqadmin producerConnection).

Only brokers that it is connected to anyway hear of it: at once when a connection is new, then each 30 s. Replies and
checks come to whom brokers know. `dialogue/introductions.py` sees to that before something is sent that they answer, so
a heartbeat that fails is not repeated before the next one is due. The application's are `services/heartbeat.py`'s.
"""

from __future__ import annotations

import asyncio

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
        self._new: dict[str, None] = {}
        """Connected since they were told, in order; a name server is one of them until a route says that it is a
        broker too, as the built-in one is.
        """
        self._told: dict[str, None] = {}

    def connected(self, address: str) -> None:
        """A fresh connection knows nothing of us."""
        self._new[address] = None
        self._bell.ring()

    async def run(self, cluster: Cluster) -> None:
        now = asyncio.get_running_loop().time
        cluster.routes.on_change(lambda _: self._bell.ring())
        due = now() + limits.HEARTBEAT_MS / 1000
        while True:
            await self._bell.wait(due)
            wanted = self._new
            if now() >= due:
                due = now() + limits.HEARTBEAT_MS / 1000
                wanted = {**self._told, **wanted}
            brokers = cluster.routes.masters()
            for address in [each for each in wanted if each in brokers and cluster.pool.is_connected(each)]:
                self._new.pop(address, None)
                await self._beat(cluster, address)

    async def _beat(self, cluster: Cluster, address: str) -> None:
        self._told[address] = None
        groups = dict.fromkeys((self._group, *cluster.introductions.groups))
        heartbeat = Heartbeat(
            client_id=cluster.options.client_id, producers=tuple(ProducerData(group=each) for each in groups)
        )
        try:
            await cluster.brokers.heartbeat(address, heartbeat)
        except FrameworkError as error:
            log.debug("producer heartbeat failed", group=self._group, broker=address, reason=str(error))

    async def leave(self, cluster: Cluster) -> None:
        """Brokers that were told forget it now, and not when they notice."""
        if self._told:
            await cluster.brokers.leave(cluster.options.client_id, [self._group], as_producer=True)
