"""The producer, as transactions and requests need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.client.outgoing import Outgoing, SendResult
from framework.model.message import Message
from framework.model.queue import MessageQueue

if TYPE_CHECKING:
    from framework.client.cluster import Cluster
    from framework.client.producing.attempts import Attempts


@dataclass(frozen=True, slots=True)
class Preparing:
    """Sends messages with properties that users may not give."""

    find_cluster: Callable[[], Cluster]
    group: str
    """As the cluster calls it."""
    namespace: str
    prepared: Callable[[Message, None], Outgoing]
    attempts: Attempts
    limit_ms: Callable[[str | float | None], int]

    @property
    def cluster(self) -> Cluster:
        """Asked for at each use, since a producer may be made before it is started."""
        return self.find_cluster()

    async def send(
        self,
        message: Message,
        marks: dict[str, str],
        *,
        is_half: bool = False,
        queue: MessageQueue | None = None,
        timeout: str | float | None = None,
    ) -> SendResult:
        outgoing = self.prepared(message, None).marked(marks, is_half=is_half)
        (result,) = await self.attempts.deliver(outgoing, queue, self.limit_ms(timeout))
        return result
