"""Brokers: typed calls to the brokers of a cluster: offsets, members, heartbeats, send-back.

Each call names the broker by its queue or by its address, raises `BrokerUnreachable` where nobody answers and `Refused`
where the broker says no. What was not where the route said makes the routes refresh. It owns no state; pulls are in
`pulling.py`, sends in `producer.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog

from framework import marks
from framework.client import copies
from framework.client.fences import Fences
from framework.client.retry_rooms import RetryRooms
from framework.client.routes import RouteTable
from framework.core.results import HOLDS
from framework.core.rolls import Roll
from framework.errors import (
    BodyUndecodable,
    BrokerUnreachable,
    ConfigurationError,
    FrameworkError,
    ProtocolError,
    Refused,
    shorten,
)
from framework.model.delay_levels import TO_DEAD_LETTERS
from framework.model.last_words import LastWords, origin_of
from framework.model.message import ORIGIN_MESSAGE_ID, UNIQUE_KEY, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX, retry_topic
from framework.net.channel import raise_for
from framework.net.pool import Pool, Purpose
from framework.net.task_tree import TaskTree
from framework.wire import stored
from framework.wire.bodies.group import ConsumerList, LockBatch, LockedQueues
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.bodies.progress import AllConsumerOffsets
from framework.wire.bodies.route import MASTER
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.fields import command_for, from_fields
from framework.wire.ids import parse_offset_message_id
from framework.wire.requests.group import HeartbeatAnswer, HeartbeatRequest, MembersRequest, UnregisterRequest
from framework.wire.requests.lock import LockRequest, UnlockRequest
from framework.wire.requests.offset import (
    AllConsumerOffsetsRequest,
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetAnswer,
    QueryOffsetRequest,
    SearchOffsetRequest,
    UpdateOffsetRequest,
)
from framework.wire.requests.query import ViewMessageRequest
from framework.wire.requests.send import SendBackRequest

log = structlog.get_logger()

SEND_BACK_TIMEOUT_MS = 5_000  # as the Java client: the broker reads its log for it
# No queue has ever held so many; an answer above is a lie or a torn field, and would skip everything.
OFFSET_MAX = 1 << 56
MEMBERS_MAX = 16_384
# V5_0_0: from here on brokers heed setZeroIfNotFound. Older ones answer 0 while a queue's first message is in memory.
NOT_FOUND_VERSION = 413


class Brokers:
    """The brokers of one cluster, by the queues they hold."""

    def __init__(
        self,
        pool: Pool,
        routes: RouteTable,
        rooms: RetryRooms,
        *,
        timeout_ms: int = 3_000,
        fences: Fences | None = None,
    ) -> None:
        self._pool, self._routes, self._rooms, self._timeout_ms = pool, routes, rooms, timeout_ms
        self._fences = fences or Fences()
        self.on_unlisted: Callable[[str], None] | None = None
        """Told the address of a broker that lists a group's members without the one that asks."""

    # Offsets

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's stored offset, the next one to handle; None where nothing is stored."""
        header = QueryOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.number,
            set_zero_if_not_found=False,  # else newer brokers too answer 0 for a group never seen
            broker_name=queue.broker,
        )
        answer = await self._ask(queue, command_for(header), ok=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        offset = _offset_in(answer, header, queue)
        if not offset and answer.version < NOT_FOUND_VERSION and not await self._is_stored(group, queue):
            marks.sometimes("a broker answered 0 for a group that it has never seen")
            return None
        return offset

    async def _is_stored(self, group: str, queue: MessageQueue) -> bool:
        """Whether the broker holds any offset of the group for this queue: a large answer, for who answers 0 to all."""
        header = AllConsumerOffsetsRequest()
        answer = await self._ask(queue, command_for(header))
        found = AllConsumerOffsets.decode(answer.body).offsets
        return queue.number in found.get(f"{queue.topic}@{group}", {})

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset and wait until the broker confirms it. Superseded where a fence was in the way."""
        # Where nobody reads the pulls' connection the answer would not be seen; no pull is on its way then either.
        purpose: Purpose = "requests" if self._pool.pulls_paused else "pulls"
        epoch = self._fences.epoch(group, queue)
        request = _commit(group, queue, offset, epoch)
        if epoch is None:
            await self._ask(queue, request, purpose=purpose)
        else:
            answer = await self._request(await self._address(queue), request, purpose=purpose)
            raise_for(self._fences.of(group, queue).passed(answer, epoch, queue), request.code, queue.broker)

    async def commit_one_way(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        """Store the group's offset without an answer: BrokerUnreachable where it could not even be sent.

        On the connection of the pulls, which carry offsets as well: on another it could overtake an older one. The
        offset is asked for when there is a connection, and answered; None where there is none to store any more.
        """
        channel = await self._pool.channel(await self._address(queue), "pulls")
        offset = committable()
        if offset is not None:
            epoch = self._fences.epoch(group, queue)
            request = _commit(group, queue, offset, epoch)
            if epoch is None or self._pool.pulls_paused:
                channel.send(request)
            else:
                # Whoever is refused has lost the queue without hearing of it, and would never commit anything again.
                answer = channel.request_now(request, timeout_ms=self._timeout_ms)
                self._fences.of(group, queue).watch(answer, epoch, queue, offset)
        return offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        header = MaxOffsetRequest(topic=queue.topic, queue_id=queue.number, broker_name=queue.broker)
        return _offset_in(await self._ask(queue, command_for(header)), header, queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        header = MinOffsetRequest(topic=queue.topic, queue_id=queue.number, broker_name=queue.broker)
        return _offset_in(await self._ask(queue, command_for(header)), header, queue)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after an instant, by the broker's clock; the end where there is none."""
        header = SearchOffsetRequest(
            topic=queue.topic, queue_id=queue.number, timestamp=timestamp_ms, broker_name=queue.broker
        )
        return _offset_in(await self._ask(queue, command_for(header)), header, queue)

    # Membership

    async def members(self, group: str, topic: str) -> list[str]:
        """The client ids of the group's members, as the topic's brokers list them all together; sorted.

        Raises the first broker's reason where none lists any. "No such group" (code 1) is one: a list that counts is
        never empty.
        """
        if not self._routes.brokers_of(topic):
            await self._routes.queues(topic)
        rolls = await self.rolls(group, self._routes.brokers_of(topic))
        lists = [roll.listed for roll in rolls if roll.listed is not None]
        if not lists:
            raise next(
                (roll.failure for roll in rolls if roll.failure is not None),
                BrokerUnreachable(f"members of {group}: topic {topic} has no broker in its route"),
            )
        return sorted({member for each in lists for member in each})

    async def rolls(self, group: str, brokers: Sequence[str], member: str = "") -> list[Roll]:
        """What each of these brokers lists, all asked at once.

        One that lists others and not this `member` is told of it again (`on_unlisted`).
        """
        if len(brokers) == 1:
            return [await self._roll(group, brokers[0], member)]
        tree = TaskTree()
        try:
            asking = [
                tree.start(self._roll(group, broker, member), name=f"members of {group} {broker}") for broker in brokers
            ]
            return [await task for task in asking]
        finally:
            await tree.close()

    async def _roll(self, group: str, broker: str, member: str) -> Roll:
        request = command_for(MembersRequest(consumer_group=group))
        try:
            address = self._routes.address_of(broker)
            answer = raise_for(await self._request(address, request), request.code, broker)
            found = ConsumerList.decode(answer.body).consumer_ids
            if not found:
                raise ProtocolError(f"members of {group}: an empty list", peer=broker)
            if len(found) > MEMBERS_MAX:
                raise ProtocolError(f"members of {group}: {len(found)}, above the limit of {MEMBERS_MAX}", peer=broker)
        except (BrokerUnreachable, Refused, ProtocolError) as error:
            return Roll(broker, None, failure=error)
        if member and member not in found and self.on_unlisted is not None:
            self.on_unlisted(address)
        return Roll(broker, tuple(found), connected_ms=self._pool.connected_ms(address))

    async def heartbeat(self, address: str, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Tell one broker who we are, on the one connection by which it knows us."""
        request = command_for(HeartbeatRequest(), heartbeat.encode())
        answer = raise_for(await self._request(address, request), request.code, address)
        return from_fields(HeartbeatAnswer, answer.fields)

    async def unregister(self, address: str, client_id: str, group: str, *, as_producer: bool = False) -> None:
        """Leave a group at one broker."""
        if as_producer:
            header = UnregisterRequest(client_id=client_id, producer_group=group)
        else:
            header = UnregisterRequest(client_id=client_id, consumer_group=group)
        request = command_for(header)
        raise_for(await self._request(address, request), request.code, address)

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
            async with asyncio.timeout(self._timeout_ms / 1000):
                for task in leaving.values():
                    await task
        except TimeoutError:
            for (group, address), task in leaving.items():
                if not task.done():
                    reason = f"no answer within {self._timeout_ms} ms"
                    log.warning("leave not confirmed", group=group, broker=address, reason=reason)
        finally:
            await tree.close()

    async def _leave(self, address: str, client_id: str, group: str, *, as_producer: bool) -> None:
        try:
            await self.unregister(address, client_id, group, as_producer=as_producer)
        except FrameworkError as error:
            log.warning("leave not confirmed", group=group, broker=address, reason=str(error))

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
        answer = await self._ask(queues[0], command_for(LockRequest(), body))
        # Only what was asked for: a name that we never heard is nothing to hold.
        return frozenset(LockedQueues.decode(answer.body).queues) & frozenset(queues)

    async def unlock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> None:
        """Let go of one broker's queues, confirmed: whoever is next need not wait until the locks run out."""
        body = LockBatch(group=group, client_id=client_id, queues=tuple(queues)).encode()
        await self._ask(queues[0], command_for(UnlockRequest(), body))

    # Retries

    async def dead_letter(self, message: Message, group: str, words: LastWords | None = None) -> None:
        """Have the message's own broker keep a copy among the group's dead letters; durable when this returns.

        A plain send to the retry topic, as the Java client's from an orderly group: past the maximum that it carries,
        the broker makes a dead letter of it, and creates that topic where it has none. Only so can it carry words of
        its own. Where that is refused, or the body cannot be read, the broker copies its own record without them.
        Asked twice because an answer was lost, it keeps two copies.
        """
        origin = "" if words is None else await self._origin(message)
        try:
            request = copies.dead_letter(message, group, message.queue.broker, words=words, origin=origin)
            await self._ask(message.queue, request, ok=copies.STORED, timeout_ms=SEND_BACK_TIMEOUT_MS)
        except (BodyUndecodable, ConfigurationError, Refused, *HOLDS) as error:
            log.debug("dead-letter reason omitted", group=group, queue=str(message.queue), reason=str(error))
            await self.send_back(message, group, delay_level=TO_DEAD_LETTERS, max_retries=message.attempt)

    async def _origin(self, message: Message) -> str:
        """Where the message was sent to: a retry's own place is one of the retry topic, and says little.

        The broker that keeps the retry keeps what it was copied from, as long as it keeps anything. What a producer
        wrote names nothing: the record found must be this message.
        """
        place = origin_of(message.queue, message.queue_offset)
        if not message.queue.topic.startswith(RETRY_PREFIX):
            return place
        named = parse_offset_message_id(message.properties.get(ORIGIN_MESSAGE_ID, ""))
        if named is None:
            return place
        try:
            request = command_for(ViewMessageRequest(offset=named.commit_log_offset, topic=message.topic))
            (found,) = stored.decode_records((await self._ask(message.queue, request)).body)
        except (FrameworkError, ValueError) as error:
            log.debug("dead-letter origin unknown", queue=str(message.queue), reason=str(error))
            return place
        if found.topic != message.topic or found.properties.get(UNIQUE_KEY) != message.message_id:
            return place
        return origin_of(MessageQueue(found.topic, message.queue.broker, found.queue_id), found.queue_offset)

    async def send_back(self, message: Message, group: str, *, delay_level: int, max_retries: int) -> None:
        """Have the message's own broker copy it into the group's retry topic (or, at the last, its dead letters).

        When this returns, the copy is durable. Asked twice because an answer was lost, the broker makes two copies.
        Refused also where a broker would say yes and keep nothing.
        """
        header = SendBackRequest(
            offset=message.commit_log_offset,
            group=group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=max_retries,
            broker_name=message.queue.broker,
        )
        try:
            await self._ask(message.queue, command_for(header), timeout_ms=SEND_BACK_TIMEOUT_MS)
        except Refused as error:
            if error.remark not in copies.STORED_REMARKS:
                raise
        else:
            await self._rooms.confirm(group, message.queue.broker)

    async def send_again(
        self, message: Message, group: str, *, delay_level: int, max_retries: int, spares_own: bool,
        words: LastWords | None = None,
    ) -> str:  # fmt: skip
        """Have some broker keep the copy as a normal message of the retry topic; its name. Durable when this returns.

        The others come first, where the topic may be written. The message's own is asked at the last, unless it is to
        be spared because it does not answer: closed for writing it refuses send-backs only, and no route says that.
        For groups without queue locks: of theirs a broker makes dead letters.
        """
        topic, own = retry_topic(group), message.queue.broker
        queues = await self._routes.writable_queues(topic)
        if all(queue.broker == own for queue in queues):
            await self._routes.refresh(topic)  # the first route of a retry topic is often older than the others' part
            queues = await self._routes.writable_queues(topic)
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker, []).append(queue)
        mine = by_broker.pop(own, [MessageQueue(topic, own, 0)])
        names, turn = sorted(by_broker), message.queue_offset
        first = turn % len(names) if names else 0
        choices = [by_broker[name] for name in names[first:] + names[:first]]
        if not spares_own:
            choices.append(mine)
        last: FrameworkError = BrokerUnreachable(f"no other broker takes {topic}")
        for choice in choices:
            queue = choice[turn % len(choice)]
            if delay_level == TO_DEAD_LETTERS:
                request = copies.dead_letter(message, group, queue.broker, queue.number, words)
            else:
                request = copies.retry(
                    message, group, queue.broker, queue.number, delay_level=delay_level, max_retries=max_retries
                )
            try:
                await self._ask(queue, request, ok=copies.STORED)
            except (BrokerUnreachable, Refused, ProtocolError) as error:
                last = error
            else:
                return queue.broker
        self._routes.refresh_soon()  # what can be written may have changed since we asked
        raise last

    # The way there

    async def _ask(
        self,
        queue: MessageQueue,
        request: RemotingCommand,
        *,
        ok: tuple[int, ...] = (ResponseCode.SUCCESS,),
        timeout_ms: int | None = None,
        purpose: Purpose = "requests",
    ) -> RemotingCommand:
        address = await self._address(queue)
        answer = await self._request(address, request, timeout_ms, purpose)
        return raise_for(answer, request.code, queue.broker, ok)

    async def _request(
        self, address: str, request: RemotingCommand, timeout_ms: int | None = None, purpose: Purpose = "requests"
    ) -> RemotingCommand:
        try:
            return await self._pool.request(
                address, request, timeout_ms=timeout_ms or self._timeout_ms, purpose=purpose
            )
        except BrokerUnreachable:
            self._routes.refresh_soon()
            raise

    async def _address(self, queue: MessageQueue) -> str:
        """The address of the queue's master; a broker that no route names is looked for once more."""
        address = self._routes.find(queue.broker, MASTER)
        if address is None:
            await self._routes.refresh(queue.topic)
            address = self._routes.address_of(queue.broker)
        return address


def _commit(group: str, queue: MessageQueue, offset: int, epoch: int | None) -> RemotingCommand:
    assert offset >= 0, f"offset {offset} of {queue} is none"
    return command_for(
        UpdateOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.number,
            commit_offset=offset,
            broker_name=queue.broker,
            epoch=epoch,
        )
    )


def _offset_in(answer: RemotingCommand, request: object, queue: MessageQueue) -> int:
    """The offset of an answer, or ProtocolError: below 0 it would be pulled with, absurdly high it would skip all."""
    offset = from_fields(OffsetAnswer, answer.fields).offset
    if not 0 <= offset <= OFFSET_MAX:
        name = request_name(type(request).CODE)  # type: ignore[attr-defined]  # every request header has one
        raise ProtocolError(f"{name} of {queue} answered with offset {shorten(offset)}", peer=queue.broker)
    return offset
