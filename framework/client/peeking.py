"""Peeks: looking at messages without consuming them, and commits whose answer is waited for."""

from __future__ import annotations

from collections.abc import Callable

from framework.client.fences import Fences
from framework.client.first_commits import FirstCommits
from framework.client.routes import RouteTable
from framework.errors import Refused
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.pool import Pool
from framework.wire import exchanges, stored
from framework.wire.codes import ResponseCode, request_name
from framework.wire.exchanges import raise_for
from framework.wire.fields import command_for
from framework.wire.requests.pull import SUBSCRIPTION, PullRequest, read_progress

BYTES = 262_144
_NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class Peeks:
    """Asks masters alone: a replica may be behind."""

    def __init__(self, pool: Pool, routes: RouteTable, fences: Fences, first: FirstCommits, *, timeout_ms: int) -> None:
        self._pool, self._routes, self._fences, self._first = pool, routes, fences, first
        self._timeout_ms = timeout_ms

    async def peek(self, group: str, queue: MessageQueue, offset: int, count: int) -> list[Message]:
        """What is at `offset` and behind it; nothing where that is not there (any more), or not yet.

        Whoever pulls for a group is told once that the group was reset, and nobody is told again. So that answer is
        an error here: the caller asks for the stored offset anew, which is the new one by then.
        """
        header = PullRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.number,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
            max_msg_bytes=BYTES,
            broker_name=queue.broker,
        )
        address = await self._routes.master_of(queue)
        answer = await self._pool.request(address, command_for(header), timeout_ms=self._timeout_ms)
        if answer.code in _NOTHING:
            return []
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            following, low, end, _ = read_progress(answer.fields)
            if low <= offset < end:
                raise Refused(
                    answer.code, f"the group was reset to {following} meanwhile",
                    request=request_name(header.CODE), peer=queue.broker,
                )  # fmt: skip
            return []
        raise_for(answer, header.CODE, queue.broker)
        _, _, _, delta = read_progress(answer.fields)
        return stored.decode(answer.body, queue, offset_delta=delta, begin=offset, most=count)

    async def commit_confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        """Store what is committable when the request leaves, and wait for the answer; None where nothing is any more.
        Superseded where a fence was in the way.

        On the connection of the pulls, which carry offsets as well: on another it could overtake a newer one.
        """
        address = await self._routes.master_of(queue)
        channel = await self._pool.channel(address, "requests" if self._pool.pulls_paused else "pulls")
        async with self._first.in_turn(group, queue):
            offset = committable()
            if offset is None:
                return None
            epoch = self._fences.epoch(group, queue)
            storing = exchanges.commit(group, queue, offset, epoch)
            answer = await channel.request_now(storing.request(), timeout_ms=self._timeout_ms)
            if epoch is not None:
                self._fences.of(group, queue).passed(answer, epoch, queue)
            storing.result(answer, queue.broker)
            self._first.note(group, queue)
        return offset
