"""KeptProgress: one group's progress above gaps, kept by the built-in broker that has the queue. As a store of
progress.

Whoever takes a queue raises a fence with it: from then on its commits carry the epoch, and the built-in broker refuses
those of a former owner.
"""

from __future__ import annotations

from typing import Any

from framework.client.brokers import BrokerCalls
from framework.client.fences import Fences
from framework.errors import Refused
from framework.model.contracts import Kept
from framework.model.queue import MessageQueue
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import raise_for
from framework.wire.fields import command_for, from_fields
from framework.wire.requests.progress import (
    ProgressAnswer,
    QueryProgressRequest,
    TakeProgressRequest,
    UpdateProgressRequest,
)


class KeptProgress:
    """One a group; as `model.contracts.KeepsProgress` says."""

    def __init__(self, group: str, calls: BrokerCalls, fences: Fences) -> None:
        self._group, self._calls, self._fences = group, calls, fences

    async def read(self, queue: MessageQueue) -> Kept | None:
        header = QueryProgressRequest(**self._place(queue))
        answer = await self._answer(queue, command_for(header))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise_for(answer, header.CODE, queue.broker)
        return Kept(from_fields(ProgressAnswer, answer.fields).epoch, answer.body)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        header = TakeProgressRequest(**self._place(queue))
        answer = raise_for(await self._answer(queue, command_for(header, content)), header.CODE, queue.broker)
        epoch = from_fields(ProgressAnswer, answer.fields).epoch
        self._fences.of(self._group, queue).raise_to(epoch)
        return epoch

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        header = UpdateProgressRequest(epoch=epoch, **self._place(queue))
        answer = await self._answer(queue, command_for(header, content))
        self._fences.of(self._group, queue).passed(answer, epoch, queue)
        raise_for(answer, header.CODE, queue.broker)

    def _place(self, queue: MessageQueue) -> dict[str, Any]:
        topic, broker, number = queue
        return {"consumer_group": self._group, "topic": topic, "queue_id": number, "broker_name": broker}

    async def _answer(self, queue: MessageQueue, request: RemotingCommand) -> RemotingCommand:
        answer = await self._calls.answer(queue, request)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise Refused(
                answer.code,
                "only the built-in broker supports `progress: broker`; write `progress: topic`",
                request=request_name(request.code), peer=queue.broker,
            )  # fmt: skip
        return answer
