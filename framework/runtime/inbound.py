"""What brokers ask of us, for themselves or for an administrator. Any other request is answered "not supported".

It owns the table of requests, the refusals and the audit lines; the group decides what a request does to it. We never
see an administrator's own address: what is logged as `peer` is the broker that passed the request on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from framework import marks
from framework.core.budget import Allowance
from framework.errors import ProtocolError
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.snapshot import Snapshot
from framework.net.channel import Channel
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.report.running_info import running_info
from framework.runtime.report.stacks import stacks
from framework.services.direct import consume_directly, message_in
from framework.wire.bodies.progress import ClientOffsets, ResetOffsets
from framework.wire.bodies.running import DirectResult, RunningInfo
from framework.wire.codes import RequestCode, ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields
from framework.wire.requests.inbound import (
    ClientStatusRequest,
    ConsumeDirectlyRequest,
    ResetClientOffsetRequest,
    RunningInfoRequest,
)

log = structlog.get_logger()

# An administrator asks by hand; more at once is somebody who wants our handlers for himself.
DIRECT_MAX = 4
# A second, and as a burst. mqadmin and the Dashboard ask each member once, members ask some of the others at a start.
# What brokers ask together takes a tenth of the event loop: the groups of other brokers would stand still for more.
COUNT_OF_ONE, COUNT_OF_ALL = 32, 64
SPENT_MS_OF_ONE, SPENT_MS_OF_ALL = 50.0, 100.0
# What one answer counts for at most: more than that, and the machine was busy elsewhere or the container was throttled.
# Without it one slow moment had the next question refused, as where mqadmin asks a member twice in a row.
SPENT_MS_COUNTED = 20.0
PEERS_MAX = 1_024


class NotServed(Exception):
    """Why a request is not served; it becomes the answer."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


Handler = Callable[[Channel, RemotingCommand], RemotingCommand | None]


class Inbound:
    """The table of requests that brokers send to consumers. Each is answered in the turn in which it came, but for a
    message that is consumed directly: that takes as long as its handler.
    """

    def __init__(
        self, asked: AppAdministration, tree: TaskTree, *, may_reset: bool = True, may_consume: bool = True
    ) -> None:
        self._asked, self._tree = asked, tree
        self._may_reset, self._may_consume = may_reset, may_consume
        self._consuming = 0
        self._all = Allowance(COUNT_OF_ALL, SPENT_MS_OF_ALL, 0.0)
        self._of_peer: dict[str, Allowance] = {}
        self._refused: dict[str, int] = {}
        """Peers that ask too much, and how many of their questions were refused since one was answered."""
        self._table: dict[int, Handler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def __call__(self, channel: Channel, command: RemotingCommand) -> None:
        """Called by the channel, on its hot path: never awaits, never raises for what a broker sent."""
        handler = self._table.get(command.code)
        name = request_name(command.code)
        if handler is None:
            log.debug("request refused", peer=channel.peer, code=command.code)
            remark = f"{name} is not supported by this client"
            channel.answer(command, RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
            return
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._members_changed(channel, command)  # it asks nothing, costs nothing, and must not be missed
            return
        clock = asyncio.get_running_loop().time
        began_ms = clock() * 1000
        mine = self._allowance(channel.peer, began_ms)
        if not (mine.has_room(began_ms) and self._all.has_room(began_ms)):
            self._refuse(channel, command, name)
            return
        answer = self._answer(handler, channel, command, name)
        if answer is not None:
            channel.answer(command, answer)
        spent_ms = min(clock() * 1000 - began_ms, SPENT_MS_COUNTED)
        mine.take(spent_ms)
        self._all.take(spent_ms)
        refused = self._refused.pop(channel.peer, 0)
        if refused:
            log.info("requests accepted again", peer=channel.peer, refused=refused)

    def _allowance(self, peer: str, now_ms: float) -> Allowance:
        found = self._of_peer.get(peer)
        if found is None:
            if len(self._of_peer) >= PEERS_MAX:  # each is a connection that we made; those before it are gone
                self._of_peer.clear()
                self._refused.clear()
            found = self._of_peer[peer] = Allowance(COUNT_OF_ONE, SPENT_MS_OF_ONE, now_ms)
        return found

    def _refuse(self, channel: Channel, command: RemotingCommand, name: str) -> None:
        """Said on entering and on leaving: a line a request would cost more than most answers."""
        if channel.peer not in self._refused:
            log.warning(
                "requests refused", peer=channel.peer, request=name,
                reason=f"more than {COUNT_OF_ONE} a second, or {SPENT_MS_OF_ONE:g} ms of work; "
                f"of all brokers together {COUNT_OF_ALL} and {SPENT_MS_OF_ALL:g} ms",
            )  # fmt: skip
        self._refused[channel.peer] = self._refused.get(channel.peer, 0) + 1
        channel.answer(
            command, RemotingCommand(ResponseCode.SYSTEM_BUSY, remark=f"too many requests; {name} was not done")
        )

    def _answer(
        self, handler: Handler, channel: Channel, command: RemotingCommand, name: str
    ) -> RemotingCommand | None:
        try:
            return handler(channel, command)
        except NotServed as refusal:
            log.warning("request refused", request=name, peer=channel.peer, reason=refusal.remark)
            return RemotingCommand(refusal.code, remark=refusal.remark)
        except ProtocolError as error:
            log.warning("request refused", request=name, peer=channel.peer, reason=error.reason)
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=error.reason)
        except Exception as error:  # border: a broker's question must not end the connection it came by
            log.exception("request failed", request=name, peer=channel.peer)
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__} in {name}")

    # The requests

    def _members_changed(self, _: Channel, command: RemotingCommand) -> None:
        if marks.rarely("a notice is lost"):
            return
        self._asked.members_changed(command.fields.get("consumerGroup", ""))

    def _reset(self, channel: Channel, command: RemotingCommand) -> RemotingCommand:
        header = from_fields(ResetClientOffsetRequest, command.fields)
        if not self._may_reset:
            raise NotServed(ResponseCode.NO_PERMISSION, f"resetting {header.group} is forbidden here (admin.reset)")
        wanted = ResetOffsets.decode(command.body).offsets
        moved = self._group(header.group).reset(header.topic, wanted)
        log.warning(
            "offsets reset",
            peer=channel.peer, group=header.group, topic=header.topic,
            queues={str(queue): offset for queue, offset in moved.items()}, not_ours=len(wanted) - len(moved),
        )  # fmt: skip
        return RemotingCommand(ResponseCode.SUCCESS)

    def _status(self, channel: Channel, command: RemotingCommand) -> RemotingCommand:
        header = from_fields(ClientStatusRequest, command.fields)
        offsets = self._group(header.group).progress(header.topic)
        log.info("offsets shown", peer=channel.peer, group=header.group, topic=header.topic)
        return RemotingCommand(ResponseCode.SUCCESS, body=ClientOffsets(offsets=offsets).encode())

    def _running_info(self, channel: Channel, command: RemotingCommand) -> RemotingCommand:
        header = from_fields(RunningInfoRequest, command.fields)
        self._group(header.consumer_group)
        info = self._asked.running_info(header.consumer_group, with_stacks=header.jstack_enable)
        log.debug(  # a dashboard or exporter asks every few seconds, and this changes nothing
            "running info shown",
            peer=channel.peer, group=header.consumer_group, stacks=header.jstack_enable,
        )  # fmt: skip
        return RemotingCommand(ResponseCode.SUCCESS, body=info.encode())

    def _consume_directly(self, channel: Channel, command: RemotingCommand) -> None:
        header = from_fields(ConsumeDirectlyRequest, command.fields)
        name = header.consumer_group
        if not self._may_consume:
            raise NotServed(
                ResponseCode.NO_PERMISSION, f"consuming directly in {name} is forbidden here (admin.direct)"
            )
        if self._consuming >= DIRECT_MAX:
            raise NotServed(ResponseCode.SYSTEM_BUSY, f"{DIRECT_MAX} messages are being consumed directly; ask again")
        group = self._group(name)
        message = message_in(command.body, header.broker_name or "")
        if not group.can_handle(message):
            raise NotServed(ResponseCode.SYSTEM_ERROR, f"group {name} has no handler for topic {message.topic} here")
        self._consuming += 1
        self._tree.start(self._answer_later(channel, command, name, group, message), name=f"consume directly {name}")

    async def _answer_later(
        self, channel: Channel, command: RemotingCommand, name: str, group: GroupAdministration, message: Message
    ) -> None:
        try:
            result = await group.consume_directly(message)
        finally:
            self._consuming -= 1
        log.warning(
            "message consumed directly",
            peer=channel.peer, group=name, topic=message.topic, message_id=message.message_id,
            queue=str(message.queue), offset=message.queue_offset, result=result.result, elapsed_ms=result.spent_ms,
        )  # fmt: skip
        channel.answer(command, RemotingCommand(ResponseCode.SUCCESS, body=result.encode()))

    def _group(self, name: str) -> GroupAdministration:
        group = self._asked.group(name)
        if group is None:
            raise NotServed(ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{name}> not exist in this consumer")
        return group


STACKS_SECONDS = 1.0


class AppAdministration:
    """One per application; `groups` and `snapshot` are asked each time, for groups come to be after it."""

    def __init__(
        self,
        groups: Callable[[], list[ConsumerGroup]],
        snapshot: Callable[[], Snapshot],
        world: World,
    ) -> None:
        self._groups, self._snapshot, self._world = groups, snapshot, world
        self._stacks, self._stacks_at = "", float("-inf")
        """The last ones, and when they were taken (seconds, monotonic)."""

    def members_changed(self, group: str) -> None:
        found = self._find(group)
        if found is not None:
            found.members_changed()

    def group(self, name: str) -> GroupAdministration | None:
        found = self._find(name)
        return None if found is None else GroupAdministration(found, self._world)

    def running_info(self, group: str, *, with_stacks: bool) -> RunningInfo:
        return running_info(self._snapshot(), group, stacks=self._last_stacks() if with_stacks else None)

    def _last_stacks(self) -> str:
        """Taken once a second at most: they cost a millisecond and more, in which nothing else runs."""
        now = self._world.clock.monotonic()
        if now - self._stacks_at >= STACKS_SECONDS:
            self._stacks, self._stacks_at = stacks(), now
        return self._stacks

    def _find(self, name: str) -> ConsumerGroup | None:
        return next((group for group in self._groups() if group.plan.name == name), None)


class GroupAdministration:
    """One group of it, for the time of one request."""

    def __init__(self, group: ConsumerGroup, world: World) -> None:
        self._group, self._world = group, world

    def progress(self, topic: str) -> Mapping[MessageQueue, int]:
        """Read from the windows: what the table holds may be a second old."""
        return {
            queue: offset
            for queue, pull in sorted(self._group.owned.items())
            if queue.topic == topic and (offset := pull.flow.window.settle()) >= 0
        }

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        wanted = {queue: offset for queue, offset in sorted(offsets.items()) if queue.topic == topic}
        return {queue: offset for queue, offset in wanted.items() if self._group.reset(queue, offset)}

    def can_handle(self, message: Message) -> bool:
        return message.topic in self._group.handlings

    async def consume_directly(self, message: Message) -> DirectResult:
        handling = self._group.handlings[message.topic]
        return await consume_directly(
            handling.call,
            message,
            is_async=handling.is_async,
            is_orderly=self._group.plan.orderly,
            commits_by_hand=handling.commits_by_hand,
            judged=self._group.plan.judged,
            workers=self._world.workers,
            clock=self._world.clock,
        )
