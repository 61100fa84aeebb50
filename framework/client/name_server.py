"""NameServer: asks one of several name servers, and another when it does not answer.

One is chosen at random at the start, so that a fleet spreads, and kept as long as it answers. It owns that choice and
nothing that was answered.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from framework import marks
from framework.errors import AWAY, BrokerUnreachable, FrameworkError, NotConnected, ProtocolError, Refused
from framework.net.address import parse_address
from framework.net.pool import Pool
from framework.ports import Chance
from framework.wire.bodies.route import TopicRoute
from framework.wire.exchanges import route

log = structlog.get_logger()


class NameServer:
    """The name servers of one cluster, asked as if they were one."""

    def __init__(self, pool: Pool, servers: Iterable[str], chance: Chance, *, timeout_ms: int = 3_000) -> None:
        self._pool = pool
        self._servers = tuple(str(parse_address(server, "name server")) for server in servers)
        self._timeout_ms = timeout_ms
        self._chosen = chance.below(len(self._servers))
        self._is_unreachable = False

    async def route(self, topic: str) -> TopicRoute | None:
        """Where a topic's queues are; None where the name server knows no such topic.

        Raises BrokerUnreachable, Refused or ProtocolError, the last of them, where no server gave an answer.
        """
        asking = route(topic)
        last: FrameworkError | None = None
        first = self._chosen
        for step in range(len(self._servers)):
            index = (first + step) % len(self._servers)
            server = self._servers[index]
            try:
                answer = await self._pool.request(server, asking.request(), timeout_ms=self._timeout_ms)
                asking.accepted(answer, server)
            except (BrokerUnreachable, Refused) as error:
                last = error
                continue
            if step:
                marks.sometimes("another name server was chosen")
            self._chosen = index
            self._note(reachable=True)
            try:
                return asking.read(answer)
            except ProtocolError as error:
                raise ProtocolError(error.reason, peer=server) from error
        self._chosen = (first + 1) % len(self._servers)
        assert last is not None, "there is at least one name server"
        if isinstance(last, Refused):
            raise last
        self._note(reachable=False, reason=AWAY if isinstance(last, NotConnected) else str(last))
        raise NotConnected(f"no name server answers ({', '.join(self._servers)}): {last}") from last

    def _note(self, *, reachable: bool, reason: str = "") -> None:
        """Log on entering and on leaving the state, not while in it."""
        if self._is_unreachable and reachable:
            log.info("name server recovered", server=self._servers[self._chosen])
        elif not self._is_unreachable and not reachable:
            log.warning("name server unreachable", servers=list(self._servers), reason=reason)
        self._is_unreachable = not reachable

    def __repr__(self) -> str:
        return f"<NameServer {self._servers[self._chosen]} of {len(self._servers)}>"
