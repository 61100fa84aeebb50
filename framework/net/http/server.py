"""HttpServer: a port, its connections and their limits."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass

import structlog

from framework.net.http.connection import HttpConnection
from framework.net.http.messages import Routes
from framework.net.task_tree import TaskTree
from framework.ports import Listening, World

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What peers may use."""

    header_bytes: int = 16 * 1024
    body_bytes: int = 1024 * 1024
    connections: int = 64
    """For one more the oldest without an answer under way is closed; 16 may be live tails, as dashboards need."""
    request_seconds: float = 10.0
    """For a request to come in whole: slow ones hold a connection no longer."""
    idle_seconds: float = 60.0
    """Between two requests. Prometheus asks each 15 s to 60 s."""
    unread_seconds: float = 30.0
    """How long a peer may take nothing in of what was sent to it."""
    close_seconds: float = 1.0
    """For answers that are under way at the end."""


DEFAULT = HttpLimits()


class HttpServer:
    """One port. `hosts` are names beside the loopback's under which it may be asked; see `messages.is_welcome`."""

    def __init__(
        self,
        world: World,
        routes: Routes,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: Collection[str] = (),
        limits: HttpLimits = DEFAULT,
    ) -> None:
        self.routes, self.limits = routes, limits
        self.hosts = frozenset(name.lower() for name in hosts)
        self.is_loopback = _is_loopback(host)
        self._world, self._host, self._port = world, host, port
        self._listening: Listening | None = None
        self.tree = TaskTree()
        self._connections: dict[HttpConnection, None] = {}
        self._is_full = False

    async def start(self) -> int:
        """Listen; answers the port. Raises OSError as the system does."""
        assert self._listening is None, "a server starts once"
        self._listening = await self._world.network.listen(lambda: HttpConnection(self), self._host, self._port)
        return self._listening.port

    async def close(self) -> None:
        """Accept no more, let answers that are under way end within a second, then close everything."""
        if self._listening is not None:
            await self._listening.close()
        for connection in tuple(self._connections):
            connection.finish()
        try:
            async with asyncio.timeout(self.limits.close_seconds):
                for connection in tuple(self._connections):
                    await asyncio.shield(connection.closed)
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
        await self.tree.close()

    # For its connections

    def admit(self, connection: HttpConnection) -> bool:
        """Whether it may stay. Who only holds connections keeps no probe away: one of theirs makes room."""
        limit = self.limits.connections
        if len(self._connections) >= limit:
            if not self._is_full:
                log.warning("HTTP connections refused", port=self._port, limit=limit)
            self._is_full = True
            idle = next((each for each in self._connections if each.is_idle), None)
            if idle is None:
                return False
            self.forget(idle)
            idle.abort()
        elif len(self._connections) < limit / 2:
            self._is_full = False
        self._connections[connection] = None
        return True

    def forget(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)

    def __len__(self) -> int:
        return len(self._connections)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
