"""Introductions: brokers that are to ask or tell this process something must know it as a member of a producer group.

A heartbeat on the connection does it, before anything is sent that an answer may come to. Whoever owns the cluster
repeats it each 30 s and on new connections: `client/presence.py`, or the application's own heartbeats.
"""

from __future__ import annotations

import asyncio

import structlog

from framework.client.brokers import Brokers
from framework.client.routes import RouteTable
from framework.errors import FrameworkError
from framework.model.reserved import HALF_TOPIC
from framework.net.task_tree import TaskTree
from framework.wire.bodies.heartbeat import Heartbeat, ProducerData

log = structlog.get_logger()

PERIOD_SECONDS = 10.0  # well within a broker's 30 s between two checks


class Introductions:
    """One per cluster."""

    def __init__(self, brokers: Brokers, routes: RouteTable, client_id: str) -> None:
        self._brokers, self._routes, self._client_id = brokers, routes, client_id
        self.groups: dict[str, None] = {}
        """Producer groups that this process is a member of, in the order in which it joined them."""
        self._told: dict[str, int] = {}
        """Address -> how many of these groups the broker there knows of, by the connection that is open now."""

    @property
    def producers(self) -> tuple[ProducerData, ...]:
        """For heartbeats."""
        return tuple(ProducerData(group=group) for group in self.groups)

    async def join(self, group: str) -> None:
        """See to it that every master that we know has heard of this group by its present connection.

        One that cannot be told is told with the next call; nothing that needs it can reach it meanwhile.
        """
        self.groups[group] = None
        count = len(self.groups)
        missing = [address for address in self._routes.masters() if self._told.get(address, 0) < count]
        if not missing:
            return
        beat = Heartbeat(client_id=self._client_id, producers=self.producers)
        tree = TaskTree()
        try:
            for task in [tree.start(self._tell(each, beat, count), name=f"introduce {each}") for each in missing]:
                await task
        finally:
            await tree.close()

    async def keep(self, group: str) -> None:
        """Go on looking for brokers that have not heard of this group, until cancelled: any may have something to ask.

        Each broker has the topic of half messages; a name server that cannot be asked is asked again.
        """
        while True:
            try:
                await self._routes.route(HALF_TOPIC)
            except FrameworkError as error:
                log.debug("introduction failed", group=group, reason=str(error))
            await self.join(group)
            await asyncio.sleep(PERIOD_SECONDS)

    def disconnected(self, address: str) -> None:
        """A broker forgets its clients with their connections."""
        self._told.pop(address, None)

    async def _tell(self, address: str, beat: Heartbeat, count: int) -> None:
        try:
            await self._brokers.heartbeat(address, beat)
        except FrameworkError as error:
            log.debug("introduction failed", broker=address, reason=str(error))
        else:
            self._told[address] = count
