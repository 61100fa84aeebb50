"""Puller: the pulls of one queue, for one group.

Written for the hot path: a pull costs one future and no task, its frame is put together from pieces, and its answer is
always a value. It owns which replica is asked next, as the last answer suggested, and nothing of what was pulled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import structlog

from framework.client.first_commits import FirstCommits
from framework.client.routes import RouteTable
from framework.core import limits
from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, RecordDamaged, is_said
from framework.model.message import Message
from framework.model.pulled import Damaged, Failed, Found, NothingNew, OffsetIllegal, PullResult
from framework.model.queue import MessageQueue
from framework.model.subscription import BY_TAG, Subscription
from framework.net.pool import Pool
from framework.wire import stored
from framework.wire.bodies.route import MASTER
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import OFFSET_MAX
from framework.wire.requests.pull import (
    SUBSCRIPTION,
    SUSPEND,
    PullTemplate,
    pull_of,
    read_progress,
    suggested_replica,
)

log = structlog.get_logger()

NO_FILTER = "; for sql= the broker needs enablePropertyFilter=true, which a stock one has not"

_AT_REST = re.compile(r"message (\d{1,18}) of \S{1,300} is damaged\b")
_GO_AWAY = int(ResponseCode.GO_AWAY)
_FOUND = int(ResponseCode.SUCCESS)
_AGAIN = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_NOTHING = (int(ResponseCode.PULL_NOT_FOUND), _AGAIN)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)
_PULL = int(RequestCode.PULL_MESSAGE)


class Puller:
    """Make one a queue that is owned; `pull` is called by one task at a time."""

    def __init__(
        self,
        pool: Pool,
        routes: RouteTable,
        group: str,
        subscription: Subscription,
        queue: MessageQueue,
        first: FirstCommits,
        *,
        batch: int = limits.PULL_BATCH,
    ) -> None:
        self._pool, self._routes, self._queue, self._first = pool, routes, queue, first
        self._tags = frozenset(subscription.tags)
        self._group, self._batch = group, batch
        self._broker_id = MASTER
        self._is_over = False
        """The broker sends more than it is asked for; said once."""
        by_tag = self._is_by_tag = subscription.kind == BY_TAG
        self._is_all = by_tag and not self._tags
        # A broker would compile a condition anew at each pull; as from Java, it knows ours by heartbeat.
        flags, expression = (SUSPEND | SUBSCRIPTION, subscription.expression) if by_tag else (SUSPEND, None)
        self._request = pull_of(
            group, queue, 0, batch, flags, expression, subscription.kind,
            version=subscription.version, wait_ms=limits.LONG_POLL_MS, bytes_max=limits.PULL_BYTES_MAX,
        )  # fmt: skip
        self._templates: dict[int, PullTemplate] = {}
        self._is_kept = False
        """Its broker is known to keep offsets of this group's topic, and does not forget that."""

    async def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> PullResult:
        """What is at `offset`; held by the broker for 15 s while there is nothing. Only cancellation is raised.

        `alone` asks for one record, where an answer with more of them was damaged. What `committable` answers above 0
        is stored by the way, on a master that has confirmed one. It is asked when the frame is written: an offset read
        before a connection was made again would follow newer ones that were sent meanwhile.
        """
        try:
            count = 1 if alone else self._batch
            answer = await self._ask(offset, committable, count)
            if answer.code == _GO_AWAY:
                answer = await self._ask(offset, committable, count)
        except BrokerUnreachable as error:
            address = self._routes.find(self._queue.broker, self._broker_id)
            is_away = is_said(error) or (address is not None and self._pool.is_away(address))
            self._broker_id = MASTER
            self._routes.refresh_soon()
            return Failed(str(error), is_away=is_away)
        except FrameworkError as error:
            return Failed(str(error))
        try:
            return self._read(answer, offset, count)
        except ProtocolError as error:
            return Failed(f"{self._queue} at offset {offset}: {error}")

    async def _ask(self, offset: int, committable: Callable[[], int], count: int) -> RemotingCommand:
        address = self._routes.find(self._queue.broker, self._broker_id)
        if address is None:
            address = await self._find_another()
        channel = self._pool.open_channel(address, "pulls") or await self._pool.channel(address, "pulls")
        template = self._templates.get(count)
        if template is None:
            template = self._templates[count] = PullTemplate(replace(self._request, max_msg_nums=count))
        if not self._is_kept:
            self._is_kept = self._first.is_kept(self._group, self._queue)
        commit = committable() if self._is_kept and self._broker_id == MASTER else 0
        if channel.signs:
            return await channel.request_now(
                template.command(offset, commit if commit > 0 else None), timeout_ms=limits.PULL_TIMEOUT_MS
            )
        return await channel.request_frame(
            template.frame, _PULL, offset, commit if commit > 0 else None, timeout_ms=limits.PULL_TIMEOUT_MS
        )

    async def _find_another(self) -> str:
        """The replica that was suggested is not there: the master, or whoever is left where there is no master."""
        routes, broker = self._routes, self._queue.broker
        self._broker_id = MASTER
        if not routes.replicas_of(broker):
            await routes.refresh(self._queue.topic)
        replicas = routes.replicas_of(broker)
        if not replicas:
            return routes.address_of(broker)
        self._broker_id = min(replicas)
        return replicas[self._broker_id]

    def _read(self, answer: RemotingCommand, offset: int, count: int) -> PullResult:
        code = answer.code
        if code != _FOUND and code not in _NOTHING and code != _MOVED:
            self._broker_id = MASTER
            if code == ResponseCode.SYSTEM_ERROR and (named := _AT_REST.match(answer.remark or "")) is not None:
                # The built-in broker says so in place of serving the bytes, as a stock broker would.
                return Damaged(f"{self._queue}: {named[0]}", int(named[1]) + 1, offset + 1, offset + 1)
            hint = "" if self._is_by_tag or code != ResponseCode.SYSTEM_ERROR else NO_FILTER
            return Failed(f"code {code}, {(answer.remark or 'no remark')[:200]}{hint}", code)
        following, low, high, delta = read_progress(answer.fields)
        replica, self._broker_id = self._broker_id, suggested_replica(answer.fields)
        if not 0 <= following <= OFFSET_MAX:
            raise ProtocolError(f"the broker returned next offset {following}", peer=self._queue.broker)
        if code == _MOVED:
            return OffsetIllegal(following, low, high)
        # Java takes an offset that went backwards, with a note in its log; here it would hand out messages again.
        if following < offset:
            raise ProtocolError(f"the broker returned lower offset {following}", peer=self._queue.broker)
        if code != _FOUND:
            if replica != MASTER and code == _AGAIN and following == offset:
                return Failed(f"replica {replica} of {self._queue.broker} has not come so far")
            return NothingNew(following, low, high)
        body = answer.body
        try:
            messages = stored.decode(body, self._queue, offset_delta=delta, begin=offset, most=count)
            if messages and stored.end_of(messages) < len(body):
                body, following = self._cut(body[: stored.end_of(messages)], offset, messages[-1].queue_offset + 1)
                messages = stored.decode(body, self._queue, offset_delta=delta, begin=offset)
            if messages and messages[-1].queue_offset >= following:
                raise RecordDamaged(
                    f"{self._queue}: offset {messages[-1].queue_offset}, where the broker goes on from {following}"
                )
        except RecordDamaged as error:
            # The whole pull fails: skipping one record silently would lose it.
            until = offset + 1 if self._is_all and not stored.begins_with_batch(body) else following
            return Damaged(str(error), following, max(until, offset + 1), high)
        if self._tags:
            messages = self._wanted(messages)
        return Found(messages, len(body), following, low, high)

    def _cut(self, body: bytes, offset: int, following: int) -> tuple[bytes, int]:
        """What the broker sent beyond what it was asked for is asked for again: it would stop all others for a while,
        and keep bytes alive that no limit counts on.
        """
        if not self._is_over:
            self._is_over = True
            log.warning(
                "pull result cut",
                group=self._group, broker=self._queue.broker, queue=str(self._queue), offset=offset, to=following,
            )  # fmt: skip
        return body, following

    def _wanted(self, messages: list[Message]) -> list[Message]:
        """The second check, by text: the broker compared hashes, and two tags may share one."""
        tags = self._tags
        return [message for message in messages if message.tags in tags]

    def __repr__(self) -> str:
        return f"<Puller {self._queue} by replica {self._broker_id}>"
