"""Brokers: typed calls to the brokers of a cluster: offsets, looks, members, heartbeats, queue locks.

Each call names the broker by its queue or by its address, raises `BrokerUnreachable` where nobody answers and `Refused`
where the broker says no. It owns no state but templates of commits; pulls are in `pulling.py`, sends in `producer.py`,
copies for retries in `retry_copies.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from framework import marks
from framework.client.fences import Fences
from framework.client.first_commits import FirstCommits
from framework.client.routes import RouteTable
from framework.core.member_lists import MemberList
from framework.errors import (
    BrokerUnreachable,
    FrameworkError,
    NotConnected,
    ProtocolError,
    Refused,
    RequestTimedOut,
    is_said,
)
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.channel import Ready
from framework.net.pool import Pool, Purpose
from framework.net.task_tree import TaskTree
from framework.wire import exchanges, stored
from framework.wire.bodies.group import AssignmentQuery, Assignments, ConsumerList, LockBatch, LockedQueues
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.bodies.progress import AllConsumerOffsets
from framework.wire.bodies.route import MASTER
from framework.wire.codes import RequestCode, ResponseCode, request_name
from framework.wire.command import ONE_WAY_BIT, V5_0_0, RemotingCommand
from framework.wire.exchanges import Exchange, body_of, header_of, nothing, raise_for
from framework.wire.fields import command_for
from framework.wire.frame import Template
from framework.wire.requests.group import (
    HeartbeatAnswer,
    HeartbeatRequest,
    LockRequest,
    MembersRequest,
    UnlockRequest,
    UnregisterRequest,
)
from framework.wire.requests.offset import AllConsumerOffsetsRequest
from framework.wire.requests.pull import SUBSCRIPTION, pull_of, read_progress

log = structlog.get_logger()

MEMBERS_MAX = 16_384
YOUNG_MS = 3_000
"""So soon after it was connected a broker that knows no member of a group may know one in a moment."""
PEEK_BYTES = 262_144
_NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
_PULLED = "PULL"
_COMMIT = int(RequestCode.UPDATE_CONSUMER_OFFSET)


class Brokers:
    """The brokers of one cluster, by the queues they hold."""

    def __init__(self, pool: Pool, routes: RouteTable, calls: BrokerCalls, fences: Fences, first: FirstCommits) -> None:
        self._pool, self._routes, self._calls, self._fences, self._first = pool, routes, calls, fences, first
        self._commits: dict[tuple[str, MessageQueue], Template] = {}
        self.on_unlisted: Callable[[str], None] | None = None
        """Told the address of a broker that lists a group's members without the one that asks."""

    # Offsets

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's stored offset, the next one to handle; None where nothing is stored."""
        asking = exchanges.stored_offset(group, queue)
        answer = await self._calls.answer(queue, asking.request())
        offset = asking.result(answer, queue.broker)
        # Older brokers do not heed setZeroIfNotFound: they answer 0 while a queue's first message is in memory.
        if offset == 0 and answer.version < V5_0_0 and not await self._is_stored(group, queue):
            return None
        if offset is not None:
            self._first.note(group, queue)
        return offset

    async def _is_stored(self, group: str, queue: MessageQueue) -> bool:
        """Whether the broker holds any offset of the group for this queue: a large answer, for who answers 0 to all."""
        all_offsets = Exchange(AllConsumerOffsetsRequest(), body_of(AllConsumerOffsets))
        found = (await self._calls.to_master(queue, all_offsets)).offsets
        return queue.number in found.get(f"{queue.topic}@{group}", {})

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset and wait until the broker confirms it. Superseded where a fence was in the way."""
        purpose: Purpose = "pulls"

        def ask(request: RemotingCommand) -> Awaitable[RemotingCommand]:
            nonlocal purpose
            # Where nobody reads the pulls' connection the answer would not be seen; no pull is on its way then either.
            purpose = "requests" if self._pool.pulls_paused else "pulls"
            return self._calls.answer(queue, request, purpose)

        try:
            await self._confirmed(group, queue, lambda: offset, ask)
        except RequestTimedOut:
            if purpose == "requests" or not self._pool.pulls_paused:
                raise
            await self.commit(group, queue, offset)  # paused meanwhile: the answer lies unread

    async def commit_confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        """The same with what is committable when the request leaves; None where nothing is any more.

        On the connection of the pulls, which carry offsets as well: on another it could overtake a newer one.
        """
        address = await self._routes.master_of(queue)
        channel = await self._pool.channel(address, "requests" if self._pool.pulls_paused else "pulls")
        ask = partial(channel.request_now, timeout_ms=self._calls.timeout_ms)
        return await self._confirmed(group, queue, committable, ask)

    async def _confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None],
        ask: Callable[[RemotingCommand], Awaitable[RemotingCommand]],
    ) -> int | None:  # fmt: skip
        async with self._first.in_turn(group, queue):
            offset = committable()
            if offset is None:
                return None
            epoch = self._fences.epoch(group, queue)
            storing = exchanges.commit(group, queue, offset, epoch)
            answer = await ask(storing.request())
            if epoch is not None:
                self._fences.of(group, queue).passed(answer, epoch, queue)
            storing.result(answer, queue.broker)
            self._first.note(group, queue)
        return offset

    async def commit_one_way(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        """Store the group's offset without an answer: BrokerUnreachable where it could not even be sent.

        On the connection of the pulls, which carry offsets as well: on another it could overtake an older one. The
        offset is asked for when there is a connection, and answered; None where there is none to store any more, or
        where the first one of its topic is under way.
        """
        address = self._routes.find(queue.broker, MASTER) or await self._routes.master_of(queue)
        channel = self._pool.open_channel(address, "pulls") or await self._pool.channel(address, "pulls")
        await marks.stretched("a one-way commit has its connection")
        offset = committable()
        is_first = not self._first.is_kept(group, queue)
        if is_first and self._first.is_under_way(group, queue):
            return None
        if offset is not None and not marks.rarely("a one-way commit is lost"):
            epoch = self._fences.epoch(group, queue)
            if epoch is None and not channel.signs and not is_first:
                # At once: a confirmed commit of the same turn has a connection of its own, and would be overtaken.
                frame_of = self._commit_of(group, queue).frame
                channel.send(Ready(_COMMIT, lambda number: frame_of(number, offset)), at_once=True)
                return offset
            request = exchanges.commit(group, queue, offset, epoch).request()
            if self._pool.pulls_paused or (epoch is None and not is_first):
                channel.send(request)
                return offset
            answer = channel.request_now(request, timeout_ms=self._calls.timeout_ms)
            if is_first:
                self._first.watch(group, queue, answer)
            if epoch is not None:
                # Whoever is refused has lost the queue without hearing of it, and would never commit anything again.
                self._fences.of(group, queue).watch(answer, epoch, queue, offset)
        return offset

    def _commit_of(self, group: str, queue: MessageQueue) -> Template:
        """A thousand queues at work commit each second."""
        template = self._commits.get((group, queue))
        if template is None:
            command = exchanges.commit(group, queue, 0).request()
            command.flag |= ONE_WAY_BIT
            template = self._commits[group, queue] = Template(command, ("commitOffset",))
        return template

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await self._calls.to_master(queue, exchanges.max_offset(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        return await self._calls.to_master(queue, exchanges.min_offset(queue))

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after an instant, by the broker's clock; the end where there is none."""
        return await self._calls.to_master(queue, exchanges.offset_at(queue, timestamp_ms))

    async def peek(self, group: str, queue: MessageQueue, offset: int, count: int) -> list[Message]:
        """What the master has at `offset` and behind it; nothing where that is not there (any more), or not yet.

        Whoever pulls for a group is told once that the group was reset, and nobody is told again. So that answer is
        an error here: the caller asks for the stored offset anew, which is the new one by then.
        """
        header = pull_of(group, queue, offset, count, SUBSCRIPTION, bytes_max=PEEK_BYTES)
        address = await self._routes.master_of(queue)
        answer = await self._pool.request(address, command_for(header), timeout_ms=self._calls.timeout_ms)
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

    # Membership

    async def members(self, group: str, topic: str) -> list[str]:
        """The client ids of the group's members, as the topic's brokers list them all together; sorted.

        Raises the first broker's reason where none lists any. "No such group" (code 1) is one: a list that counts is
        never empty.
        """
        if not self._routes.brokers_of(topic):
            await self._routes.queues(topic)
        lists = await self.lists(group, self._routes.brokers_of(topic))
        answered = [each.listed for each in lists if each.listed is not None]
        if not answered:
            raise next(
                (each.failure for each in lists if each.failure is not None),
                BrokerUnreachable(f"members of {group}: topic {topic} has no broker in its route"),
            )
        return sorted({member for listed in answered for member in listed})

    async def lists(self, group: str, brokers: Sequence[str], member: str = "") -> list[MemberList]:
        """What each of these brokers lists, all asked at once.

        One that lists others and not this `member` is told of it again (`on_unlisted`).
        """
        if len(brokers) == 1:
            return [await self._list_of(group, brokers[0], member)]
        tree = TaskTree()
        try:
            asking = [
                tree.start(self._list_of(group, broker, member), name=f"members of {group} {broker}")
                for broker in brokers
            ]
            return [await task for task in asking]
        finally:
            await tree.close()

    async def _list_of(self, group: str, broker: str, member: str) -> MemberList:
        listing = Exchange(MembersRequest(consumer_group=group), body_of(ConsumerList))
        try:
            address = self._routes.address_of(broker)
            found = (await self._calls.to(address, listing, broker)).consumer_ids
            if not found:
                raise ProtocolError(f"members of {group}: an empty list", peer=broker)
            if len(found) > MEMBERS_MAX:
                raise ProtocolError(f"members of {group}: {len(found)}, above the limit of {MEMBERS_MAX}", peer=broker)
        except Refused as error:
            # One that was away has heard of nobody yet, and our heartbeat is on its way: that it was away is said.
            is_young = error.code == ResponseCode.SYSTEM_ERROR and self._pool.connected_ms(address) < YOUNG_MS
            return MemberList(broker, None, failure=NotConnected(str(error)) if member and is_young else error)
        except (BrokerUnreachable, ProtocolError) as error:
            return MemberList(broker, None, failure=error)
        if member and member not in found and self.on_unlisted is not None:
            self.on_unlisted(address)
        return MemberList(broker, tuple(found), connected_ms=self._pool.connected_ms(address))

    async def heartbeat(self, address: str, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Tell one broker who we are, on the one connection by which it knows us."""
        beat = Exchange(HeartbeatRequest(), header_of(HeartbeatAnswer), heartbeat.encode())
        return await self._calls.to(address, beat, address)

    async def unregister(self, address: str, client_id: str, group: str, *, as_producer: bool = False) -> None:
        """Leave a group at one broker."""
        if as_producer:
            header = UnregisterRequest(client_id=client_id, producer_group=group)
        else:
            header = UnregisterRequest(client_id=client_id, consumer_group=group)
        await self._calls.to(address, Exchange(header, nothing), address)

    async def leave(self, client_id: str, groups: Iterable[str], *, as_producer: bool = False) -> None:
        """Leave groups everywhere: all at once, for whoever stops has one request's patience left, whatever hangs.

        A broker that cannot be told has lost our connection, or notices when it ends.
        """
        connected = [address for address in self._routes.all_addresses() if self._pool.is_connected(address)]
        tree = TaskTree()
        leaving = {
            (group, address): tree.start(
                self._leave(address, client_id, group, as_producer=as_producer), name=f"leave {group} {address}"
            )
            for group in groups
            for address in connected
        }
        try:
            async with asyncio.timeout(self._calls.timeout_ms / 1000):
                for task in leaving.values():
                    await task
        except TimeoutError:
            for (group, address), task in leaving.items():
                if not task.done():
                    reason = f"no answer within {self._calls.timeout_ms} ms"
                    log.warning("leave not confirmed", group=group, broker=address, reason=reason)
        finally:
            await tree.close()

    async def _leave(self, address: str, client_id: str, group: str, *, as_producer: bool) -> None:
        try:
            await marks.stretched("a group is left")
            await self.unregister(address, client_id, group, as_producer=as_producer)
        except FrameworkError as error:
            told = log.debug if is_said(error) else log.warning
            told("leave not confirmed", group=group, broker=address, reason=str(error))

    async def asked_mode(self, group: str, topic: str, member: str) -> str:
        """How administrators have a group take a topic (`setConsumeMode`), PULL or POP; PULL where the broker is older
        than such modes. Raises where none can be asked.
        """
        broker = min(self._routes.brokers_of(topic))
        query = AssignmentQuery(topic=topic, group=group, client_id=member, strategy="AVG").encode()
        request = RemotingCommand(RequestCode.QUERY_ASSIGNMENT, body=query)
        answer = await self._calls.answer(MessageQueue(topic, broker, 0), request)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return _PULLED
        found = Assignments.decode(raise_for(answer, request.code, broker).body).assignments
        return found[0].mode if found else _PULLED

    def addresses(self) -> list[str]:
        """Where heartbeats go: to all known brokers, and to their replicas, which may be pulled from."""
        return self._routes.all_addresses()

    # Order

    def where(self, queue: MessageQueue) -> str:
        """The address of the queue's master, which alone keeps its locks; empty while no route names it."""
        return self._routes.find(queue.broker, MASTER) or ""

    async def lock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> frozenset[MessageQueue]:
        """Take or renew the locks of one broker's queues; answers those that the client holds now."""
        body = LockBatch(group=group, client_id=client_id, queues=tuple(queues)).encode()
        locked = await self._calls.to_master(queues[0], Exchange(LockRequest(), body_of(LockedQueues), body))
        # Only what was asked for: a name that we never heard is nothing to hold.
        return frozenset(locked.queues) & frozenset(queues)

    async def unlock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> None:
        """Let go of one broker's queues, confirmed: whoever is next need not wait until the locks run out."""
        body = LockBatch(group=group, client_id=client_id, queues=tuple(queues)).encode()
        await self._calls.to_master(queues[0], Exchange(UnlockRequest(), nothing, body))


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
