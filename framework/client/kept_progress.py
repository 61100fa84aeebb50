"""KeptProgress: one group's progress above gaps, kept by the box that has the queue. As a store of progress.

Whoever takes a queue raises a fence with it: from then on its commits carry the epoch, and the box refuses those of a
former owner.
"""

from __future__ import annotations

from framework.client.fences import Fences
from framework.client.routes import RouteTable
from framework.errors import Refused
from framework.model.contracts import Kept
from framework.model.queue import MessageQueue
from framework.net.channel import raise_for
from framework.net.pool import Pool
from framework.wire.bodies.route import MASTER
from framework.wire.codes import RequestCode, ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.fields import command_for, from_fields
from framework.wire.requests.progress import (
    ProgressAnswer,
    QueryProgressRequest,
    TakeProgressRequest,
    UpdateProgressRequest,
)


class KeptProgress:
    """One a group; as `model.contracts.KeepsProgress` says."""

    def __init__(self, group: str, pool: Pool, routes: RouteTable, fences: Fences, *, timeout_ms: int = 3_000) -> None:
        self._group, self._pool, self._routes, self._fences = group, pool, routes, fences
        self._timeout_ms = timeout_ms

    async def read(self, queue: MessageQueue) -> Kept | None:
        header = QueryProgressRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.number, broker_name=queue.broker
        )
        answer = await self._ask(queue, command_for(header))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise_for(answer, RequestCode.BOX_QUERY_PROGRESS, queue.broker)
        return Kept(from_fields(ProgressAnswer, answer.fields).epoch, answer.body)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        header = TakeProgressRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.number, broker_name=queue.broker
        )
        answer = raise_for(
            await self._ask(queue, command_for(header, content)), RequestCode.BOX_TAKE_PROGRESS, queue.broker
        )
        epoch = from_fields(ProgressAnswer, answer.fields).epoch
        self._fences.of(self._group, queue).raise_to(epoch)
        return epoch

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        header = UpdateProgressRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.number, epoch=epoch, broker_name=queue.broker
        )
        answer = await self._ask(queue, command_for(header, content))
        self._fences.of(self._group, queue).passed(answer, epoch, queue)
        raise_for(answer, RequestCode.BOX_UPDATE_PROGRESS, queue.broker)

    async def _ask(self, queue: MessageQueue, request: RemotingCommand) -> RemotingCommand:
        address = self._routes.find(queue.broker, MASTER)
        if address is None:
            await self._routes.refresh(queue.topic)
            address = self._routes.address_of(queue.broker)
        answer = await self._pool.request(address, request, timeout_ms=self._timeout_ms)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise Refused(
                answer.code,
                "it is no broker in the box, and only those keep `progress: broker`; write `progress: topic`",
                request=request_name(request.code), peer=queue.broker,
            )  # fmt: skip
        return answer
