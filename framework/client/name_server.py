"""NameServer: asks one of several name servers, and another when it does not answer.

One is chosen at random at the start, so that a fleet spreads, and kept as long as it answers. It owns that choice and
nothing that was answered.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, Refused, is_said, no_name_server
from framework.net.address import parse_address
from framework.net.pool import Pool
from framework.ports import Chance
from framework.wire import exchanges
from framework.wire.bodies.route import TopicRoute

log = structlog.get_logger()


class NameServer:
    """The name servers of one cluster, asked as if they were one."""

    def __init__(self, pool: Pool, servers: Iterable[str], chance: Chance, *, timeout_ms: int = 3_000) -> None:
        self._pool = pool
        self._servers = tuple(str(parse_address(server, "name server")) for server in servers)
        self._timeout_ms = timeout_ms
        self._chosen = chance.below(len(self._servers))
        self._is_unreachable = self._is_said = False
        self.failure: FrameworkError | None = None
        """Why the last question had no answer."""
        self.has_answered = False

    async def route(self, topic: str) -> TopicRoute | None:
        """Where a topic's queues are; None where the name server knows no such topic.

        Raises BrokerUnreachable, Refused or ProtocolError, the last of them, where no server gave an answer.
        """
        asking = exchanges.route(topic)
        failed: list[FrameworkError] = []
        first = self._chosen
        for step in range(len(self._servers)):
            index = (first + step) % len(self._servers)
            server = self._servers[index]
            try:
                answer = await self._pool.request(server, asking.request(), timeout_ms=self._timeout_ms)
                asking.accepted(answer, server)
            except (BrokerUnreachable, Refused) as error:
                failed.append(error)
                continue
            self._chosen, self.failure, self.has_answered = index, None, True
            self._note(None)
            try:
                return asking.read(answer)
            except ProtocolError as error:
                raise ProtocolError(error.reason, peer=server) from error
        self._chosen = (first + 1) % len(self._servers)
        self.failure = last = failed[-1]  # there is at least one name server
        if isinstance(last, Refused):
            raise last
        self._note(last)
        raise no_name_server(failed) from last

    async def clusters(self) -> tuple[str, ...]:
        """The clusters that have a broker, as the one says that answers now. Whether it does changes nothing here."""
        asking, server = exchanges.clusters(), self._servers[self._chosen]
        answer = await self._pool.request(server, asking.request(), timeout_ms=self._timeout_ms)
        asking.accepted(answer, server)
        return asking.read(answer)

    def _note(self, failure: FrameworkError | None) -> None:
        """Log on entering and on leaving the state, not while in it. That each is away was said of its address."""
        if self._is_unreachable and failure is None:
            server = self._servers[self._chosen]
            (log.debug if self._is_said else log.info)("name server recovered", server=server)
        elif not self._is_unreachable and failure is not None:
            self._is_said = is_said(failure)
            told = log.debug if self._is_said else log.warning
            remedy = "check cluster.name_servers and the network"
            told("name server unreachable", servers=list(self._servers), reason=str(failure), remedy=remedy)
        self._is_unreachable = failure is not None
