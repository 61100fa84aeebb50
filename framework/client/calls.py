"""BrokerCalls: one exchange with one broker, found by its queue or its address.

It raises BrokerUnreachable where nobody answers, and has the routes refreshed then: the broker may not be where they
say. It owns no state and makes no second attempt.
"""

from __future__ import annotations

from typing import TypeVar

from framework.client.routes import RouteTable
from framework.errors import BrokerUnreachable
from framework.model.queue import MessageQueue
from framework.net.pool import Pool, Purpose
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import Exchange

T = TypeVar("T")


class BrokerCalls:
    """To the brokers of one cluster. `timeout_ms` holds where a call names no other."""

    def __init__(self, pool: Pool, routes: RouteTable, *, timeout_ms: int = 3_000) -> None:
        self._pool, self._routes, self.timeout_ms = pool, routes, timeout_ms

    async def to_master(self, queue: MessageQueue, exchange: Exchange[T], *, timeout_ms: int | None = None) -> T:
        """The result of an exchange with the queue's master."""
        address = await self._routes.master_of(queue)
        return exchange.result(await self._request(address, exchange.request(), timeout_ms), queue.broker)

    async def to(self, address: str, exchange: Exchange[T], peer: str, *, timeout_ms: int | None = None) -> T:
        """The result of an exchange with whoever is at an address; `peer` names it in errors."""
        return exchange.result(await self._request(address, exchange.request(), timeout_ms), peer)

    async def answer(
        self, queue: MessageQueue, request: RemotingCommand, purpose: Purpose = "requests", *,
        timeout_ms: int | None = None,
    ) -> RemotingCommand:  # fmt: skip
        """The answer of the queue's master, whatever its code."""
        return await self._request(await self._routes.master_of(queue), request, timeout_ms, purpose)

    async def _request(
        self, address: str, request: RemotingCommand, timeout_ms: int | None = None, purpose: Purpose = "requests"
    ) -> RemotingCommand:
        try:
            return await self._pool.request(address, request, timeout_ms=timeout_ms or self.timeout_ms, purpose=purpose)
        except BrokerUnreachable:
            self._routes.refresh_soon()
            raise
