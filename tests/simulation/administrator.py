"""Administrator: changes topics and groups of a simulated cluster as mqadmin does, by requests over the network.

Its requests may be refused, or their answers lost, as every other request in a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from framework.errors import FrameworkError
from framework.wire.codes import ResponseCode
from framework.wire.fields import RequestHeader, command_for
from tests.simulation.cluster import Cluster

TIMEOUT_MS = 3_000
AGAIN_S = 0.5


class Administrator:
    """Sits at the producer's machine. One a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def begin(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do it in the background; False where there is no machine to do it from."""
        node, producing = self._cluster.producer.node, self._cluster.producing
        if node is None or not node.is_alive or producing is None:
            return False
        self._cluster.loop.spawn(node, _to_its_end(work), name="administrator")
        return True

    async def ask(self, header: RequestHeader, *, broker: str) -> bool:
        """One request to one logical broker; whether it was answered with success."""
        producing = self._cluster.producing
        assert producing is not None, "begin() has looked"
        try:
            address = producing.cluster.routes.address_of(broker)
            answer = await producing.cluster.pool.request(address, command_for(header), timeout_ms=TIMEOUT_MS)
        except FrameworkError:
            return False
        return answer.code == ResponseCode.SUCCESS

    async def insist(self, header: RequestHeader, *, broker: str) -> None:
        """Ask until it is answered with success."""
        while not await self.ask(header, broker=broker):  # noqa: ASYNC110 - nothing tells when a broker is back
            await asyncio.sleep(AGAIN_S)


async def _to_its_end(work: Callable[[], Awaitable[None]]) -> None:
    await work()
