"""Attempts: gets what is ready to be sent to a broker that stores it: the queue, the next broker, the time left.

It owns the turn of each topic's queues and where order keys belong. What may be sent is `outgoing.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

from framework.client.cluster import Cluster
from framework.client.outgoing import Outgoing, SendResult, results_of, send_template
from framework.client.producing.delays import BrokerTimers
from framework.client.producing.health import BrokerHealth
from framework.client.producing.options import WhenAway
from framework.client.producing.ordering import KeyedQueues, KeyTurns, queue_of_key
from framework.client.producing.places import Places
from framework.errors import (
    BrokerUnreachable,
    ConfigurationError,
    ConnectionLost,
    NotConnected,
    Refused,
    RequestTimedOut,
    shorten,
)
from framework.mistakes import MessageWrong, NotInCluster
from framework.model.namespaces import unwrap
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC
from framework.model.sendable import check_sendable
from framework.net.channel import Channel, Ready
from framework.ports import World
from framework.wire.bodies.route import MASTER
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import raise_for
from framework.wire.frame import Template
from framework.wire.requests.copies import STORED
from framework.wire.requests.send import DEFAULT_QUEUES

T = TypeVar("T")
_Connected: TypeAlias = tuple[Cluster, str, Channel, int]
"""A broker's address and connection, where they are there, and the limit of all attempts in milliseconds."""
OnStored: TypeAlias = Callable[[Outgoing, list[SendResult], str, RemotingCommand, int], None]

# Codes after which another broker is worth a try, as in DefaultMQProducer.
WORTH_A_RETRY = (
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.NO_PERMISSION,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
    ResponseCode.GO_AWAY,
)
SAME_BROKER_PAUSE_SECONDS = 0.2  # before a broker is tried again that has just failed, where there is no other
SAME_QUEUE_PAUSE_MAX_SECONDS = 1.0
A_MOMENT_SECONDS = 0.001  # limits are counted in milliseconds
TEMPLATES_MAX = 10_000  # queues; of half a KiB each


class Attempts:
    """One a producer. `cluster` is asked at each send, since a producer may be made before it is started."""

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        world: World,
        *,
        group: str,
        namespace: str,
        retries: int,
        when_away: WhenAway,
        max_in_flight: int,
        on_stored: OnStored | None = None,
    ) -> None:
        self._cluster, self._world = cluster, world
        self._group, self._namespace = group, namespace
        self._retries, self._when_away, self._on_stored = retries, when_away, on_stored
        self._turns: dict[str, int] = {}
        self._keyed, self._key_turns = KeyedQueues(), KeyTurns()
        self._timers = BrokerTimers(cluster)
        self._health = BrokerHealth()
        self._templates: dict[tuple[MessageQueue, bool], Template] = {}
        self._places = Places(max_in_flight)

    async def deliver(self, outgoing: Outgoing, queue: MessageQueue | None, timeout_ms: int) -> list[SendResult]:
        """Where each message is stored. Raises Refused, BrokerUnreachable, ConfigurationError.

        At most `max_in_flight` of them go on at once; the others wait here, within their time.
        """
        last: list[BrokerUnreachable | Refused] = []
        failed: dict[str, None] = {}
        until = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            if queue is None and outgoing.order_key is None and outgoing.wish is None and self._places.free:
                results = await self._at_once(outgoing, timeout_ms, failed, last)
                if results is not None:
                    return results
            if last and until - asyncio.get_running_loop().time() < A_MOMENT_SECONDS:
                raise TimeoutError  # another attempt would leave, and nobody would wait for its answer
            async with asyncio.timeout_at(until):
                return await self._in_time(outgoing, queue, failed, last)
        except TimeoutError:
            cause = f"; the last attempt: {last[-1]}" if last else ""
            raise RequestTimedOut(f"send to {outgoing.topic}: not stored within {timeout_ms} ms{cause}") from None
        except (
            Refused,
            ConfigurationError,
        ) as error:  # a broker's timer may reach less far than that of the one before
            if not any(map(_may_have_stored, last)):
                raise
            raise BrokerUnreachable(
                f"send to {outgoing.topic}: an attempt without an answer may have stored it; the last: {error}"
            ) from error
        except BrokerUnreachable as error:
            raise _told(error, outgoing) from error

    async def _in_time(
        self, outgoing: Outgoing, queue: MessageQueue | None, failed: dict[str, None],
        last: list[BrokerUnreachable | Refused],
    ) -> list[SendResult]:  # fmt: skip
        if queue is None and outgoing.order_key is not None:
            async with self._key_turns.turn(outgoing.topic, outgoing.order_key):
                return await self._to_its_queue(outgoing, outgoing.order_key, last)
        async with self._places:
            if queue is not None:
                return await self._attempt(outgoing, _of_its_topic(queue, outgoing))
            return await self._to_any_queue(outgoing, failed, last)

    async def _at_once(
        self, outgoing: Outgoing, timeout_ms: int, failed: dict[str, None], last: list[BrokerUnreachable | Refused]
    ) -> list[SendResult] | None:
        """The first attempt, where it waits for nothing but its answer: that has a limit of its own, and a timer for
        all attempts together would be a tenth of a small send's work. None where the others have to follow.
        """
        cluster = self._cluster()
        route = cluster.routes.known(outgoing.topic)
        if route is None or not route.writable:
            return None
        queue = self._next_queue(outgoing.topic, route.writable, failed)
        address = cluster.routes.find(queue.broker, MASTER)
        channel = None if address is None else cluster.pool.ready_channel(address)
        if address is None or channel is None:
            self._turns[outgoing.topic] -= 1  # it is still this queue's turn
            return None
        self._places.free -= 1  # there is one: nobody else had the loop meanwhile
        try:
            return await self._attempt(outgoing, queue, (cluster, address, channel, timeout_ms))
        except (BrokerUnreachable, Refused) as error:
            self._note(error, outgoing, queue.broker, failed, last)
            return None
        finally:
            self._places.give()

    async def one_way(self, outgoing: Outgoing, queue: MessageQueue | None, timeout_ms: int) -> None:
        """Out, and no answer waited for. Raises BrokerUnreachable where it could not be written anywhere."""
        is_usual = queue is None and outgoing.order_key is None and outgoing.wish is None
        if is_usual and await self._written(outgoing, timeout_ms):
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if queue is not None:
                    await self._write(outgoing, _of_its_topic(queue, outgoing))
                elif outgoing.order_key is not None:
                    async with self._key_turns.turn(outgoing.topic, outgoing.order_key):
                        await self._write(outgoing, await self._present_queue_of(outgoing.topic, outgoing.order_key))
                else:
                    await self._write_anywhere(outgoing)
        except TimeoutError:
            raise RequestTimedOut(f"send to {outgoing.topic}: not written within {timeout_ms} ms") from None
        except BrokerUnreachable as error:
            raise _told(error, outgoing) from error

    async def _written(self, outgoing: Outgoing, timeout_ms: int) -> bool:
        """Whether it went to its next queue by a template, as nearly all do: the broker is known and connected."""
        cluster = self._cluster()
        route = cluster.routes.known(outgoing.topic)
        if route is None or not route.writable:
            return False
        queue = self._next_queue(outgoing.topic, route.writable, {})
        address = cluster.routes.find(queue.broker, MASTER)
        channel = None if address is None else cluster.pool.ready_channel(address)
        if channel is not None and not channel.signs:
            frame_of = outgoing.frame_of(self._template(queue, is_one_way=True))
            if frame_of is not None:
                with suppress(ConnectionLost):
                    await channel.one_way(Ready(outgoing.code, frame_of), timeout_ms=timeout_ms)
                    return True
        self._turns[outgoing.topic] -= 1  # it is still this queue's turn
        return False

    async def _write_anywhere(self, outgoing: Outgoing) -> None:
        failed: dict[str, None] = {}
        for attempts_left in reversed(range(1 + self._retries)):
            queue = self._next_queue(outgoing.topic, await self._choices(outgoing.topic), failed)
            try:
                await self._write(outgoing, queue)
            except BrokerUnreachable:
                self._cluster().routes.refresh_soon()
                if not attempts_left:
                    raise
                failed[queue.broker] = None
            else:
                return

    async def _write(self, outgoing: Outgoing, queue: MessageQueue) -> None:
        cluster = self._cluster()
        address = await cluster.routes.master_of(queue)
        if outgoing.wish is not None:
            outgoing = outgoing.timed(await self._timers.of(queue.broker, address), self._world.clock.now_ms())
        channel = await cluster.pool.channel(address)
        await channel.one_way(outgoing.request(self._group, queue), timeout_ms=cluster.options.request_timeout_ms)

    # One key, one queue

    async def queue_of(self, topic: str, key: str) -> MessageQueue:
        """The queue of an order key, whether its broker is there or not."""
        check_sendable(topic)
        return (await self._queue_of(topic, key))[0]

    async def in_turn(self, topic: str, key: str, put: Callable[[MessageQueue], T]) -> T:
        """Call `put` with the key's queue, in the order of the calls for this key."""
        async with self._key_turns.turn(topic, key):
            return put(await self.queue_of(topic, key))

    async def _queue_of(self, topic: str, key: str) -> tuple[MessageQueue, bool]:
        route = await self._cluster().routes.route(topic)
        if route is not None and (route.writable or route.order or self._keyed.knows(topic)):
            return self._keyed.queue_of(topic, route, key)
        queues = await self._choices(topic)
        if len({queue.broker for queue in queues}) > 1:
            # The first send would create the topic on one of them, and the next one would hash over its queues alone.
            raise NotInCluster(
                f"send to {topic}: order key {shorten(key)}: the topic does not exist, and brokers that create it one "
                "after the other would move keys; create it first"
            )
        return queue_of_key(queues, key), True

    async def _present_queue_of(self, topic: str, key: str) -> MessageQueue:
        """The key's queue; BrokerUnreachable where it cannot be sent to now."""
        queue, is_there = await self._queue_of(topic, key)
        if not is_there:
            away = f"order key {shorten(key)} has queue {queue}, and its broker is not in the route or takes no writes"
            raise BrokerUnreachable(f"{away}; if it is gone for good, start this producer anew")
        return queue

    async def _to_its_queue(
        self, outgoing: Outgoing, key: str, last: list[BrokerUnreachable | Refused]
    ) -> list[SendResult]:
        """To one queue, again and again while its broker is away; another queue would break the order. In between it
        holds no place: keys of brokers that are there need them.
        """
        refusals, pause = 0, SAME_BROKER_PAUSE_SECONDS
        while True:
            try:
                async with self._places:
                    return await self._attempt(outgoing, await self._present_queue_of(outgoing.topic, key))
            except BrokerUnreachable as error:
                self._cluster().routes.refresh_soon()
                if self._when_away == "fail" or self._cluster().is_closed or _may_be_a_second(outgoing, error):
                    raise
                last.append(error)
            except Refused as error:
                if error.code not in WORTH_A_RETRY or refusals == self._retries:
                    raise
                refusals += 1
                last.append(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, SAME_QUEUE_PAUSE_MAX_SECONDS)

    # Any queue

    async def _to_any_queue(
        self, outgoing: Outgoing, failed: dict[str, None], last: list[BrokerUnreachable | Refused]
    ) -> list[SendResult]:
        """With what an attempt before these has left."""
        for _ in range(1 + self._retries - len(last)):
            queues = await self._choices(outgoing.topic)
            queue = self._next_queue(outgoing.topic, queues, failed)
            if queue.broker in failed:
                await asyncio.sleep(SAME_BROKER_PAUSE_SECONDS)
            try:
                return await self._attempt(outgoing, queue)
            except (BrokerUnreachable, Refused) as error:
                self._note(error, outgoing, queue.broker, failed, last)
        assert last, "there is at least one attempt"
        if isinstance(last[-1], Refused):
            raise last[-1]
        tried = "1 attempt" if len(last) == 1 else f"{len(last)} attempts"
        raise BrokerUnreachable(f"{tried} failed ({', '.join(failed)}); the last: {last[-1]}") from last[-1]

    def _note(
        self, error: BrokerUnreachable | Refused, outgoing: Outgoing, broker: str, failed: dict[str, None],
        last: list[BrokerUnreachable | Refused],
    ) -> None:  # fmt: skip
        """Raise what no other attempt could better."""
        if isinstance(error, Refused):
            if error.code not in WORTH_A_RETRY:
                raise error
        elif self._cluster().is_closed or _may_be_a_second(outgoing, error):
            raise error
        else:
            self._cluster().routes.refresh_soon()
        last.append(error)
        failed[broker] = None

    async def _choices(self, topic: str) -> Sequence[MessageQueue]:
        """The queues that can be sent to; of a topic that does not exist yet, those it will get."""
        routes = self._cluster().routes
        route = await routes.route(topic)
        if route is not None and route.writable:
            return route.writable
        if route is not None and route.readable:
            raise Refused(
                ResponseCode.NO_PERMISSION, "no broker in its route accepts writes", request=f"send to {topic}",
                peer="the name server",
            )  # fmt: skip
        template = await routes.writable_queues(AUTO_CREATE_TOPIC)
        if not template:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic not found, and brokers do not create it ({AUTO_CREATE_TOPIC} has no route); create it first",
                request=f"send to {topic}",
                peer="the name server",
            )
        return [MessageQueue(topic, each.broker, each.number) for each in template if each.number < DEFAULT_QUEUES]

    def _next_queue(self, topic: str, queues: Sequence[MessageQueue], failed: Mapping[str, None]) -> MessageQueue:
        """Each queue in turn, from a random first one; brokers that just failed only where there is no other, and
        those that are slow, or failed other sends, not where there is a better one.
        """
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._world.chance.below(len(queues))
        self._turns[topic] = turn + 1
        health = self._health if self._health.avoided else None
        now = asyncio.get_running_loop().time() if health is not None else 0.0
        second: MessageQueue | None = None
        for step in range(len(queues)):
            queue = queues[(turn + step) % len(queues)]
            if queue.broker not in failed:
                if health is None or not health.is_avoided(queue.broker, now):
                    return queue
                second = second or queue
        return second or queues[turn % len(queues)]

    # One attempt

    async def _attempt(
        self, outgoing: Outgoing, queue: MessageQueue, ready: _Connected | None = None
    ) -> list[SendResult]:
        if ready is None:
            cluster = self._cluster()
            address = cluster.routes.find(queue.broker, MASTER) or await cluster.routes.master_of(queue)
        else:
            cluster, address, channel, timeout_ms = ready
        if outgoing.wish is not None:
            outgoing = outgoing.timed(await self._timers.of(queue.broker, address), self._world.clock.now_ms())
        now, health = asyncio.get_running_loop().time, self._health
        began_ms, began = 0 if self._on_stored is None else self._world.clock.now_ms(), now()
        try:
            if ready is None:
                request = outgoing.request(self._group, queue)
                answer = await cluster.pool.request(address, request, timeout_ms=cluster.options.request_timeout_ms)
            else:
                limit_ms = min(timeout_ms, cluster.options.request_timeout_ms)
                answer = await channel.request(self._frame(channel, outgoing, queue), timeout_ms=limit_ms)
                if answer.code == ResponseCode.GO_AWAY:  # a fresh connection has to be waited for
                    async with asyncio.timeout_at(began + timeout_ms / 1000):
                        request = outgoing.request(self._group, queue)
                        answer = await cluster.pool.request(address, request, timeout_ms=limit_ms)
            if answer.code != ResponseCode.SUCCESS:
                raise_for(answer, outgoing.code, queue.broker, ok=STORED)
        except BrokerUnreachable:
            health.failed(queue.broker, now())
            raise
        except Refused as error:
            if error.code in WORTH_A_RETRY:
                health.failed(queue.broker, now())
            raise
        ended = now()
        health.answered(queue.broker, ended - began, ended)
        results = results_of(outgoing, queue, answer, unwrap(self._namespace, queue.topic))
        if self._on_stored is not None:
            self._on_stored(outgoing, results, address, answer, began_ms)
        return results

    def _frame(self, channel: Channel, outgoing: Outgoing, queue: MessageQueue) -> RemotingCommand | Ready:
        frame_of = None if channel.signs or outgoing.is_batch else outgoing.frame_of(self._template(queue))
        return outgoing.request(self._group, queue) if frame_of is None else Ready(outgoing.code, frame_of)

    def _template(self, queue: MessageQueue, *, is_one_way: bool = False) -> Template:
        found = self._templates.get((queue, is_one_way))
        if found is None:
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            found = self._templates[queue, is_one_way] = send_template(self._group, queue, is_one_way=is_one_way)
        return found


def _of_its_topic(queue: MessageQueue, outgoing: Outgoing) -> MessageQueue:
    if queue.topic != outgoing.topic:
        raise MessageWrong(f"send to {outgoing.topic}: queue {queue} belongs to another topic")
    return queue


def _told(error: BrokerUnreachable, outgoing: Outgoing) -> BrokerUnreachable:
    """The same kind of failure with what was being sent, which connections do not know."""
    told = type(error)(f"send to {outgoing.topic}: {error}")
    if isinstance(told, RequestTimedOut) and isinstance(error, RequestTimedOut):
        told.is_said = error.is_said
    return told


def _may_be_a_second(outgoing: Outgoing, error: BrokerUnreachable) -> bool:
    """Whether another attempt may store a half message twice: each of the two would be committed."""
    return outgoing.is_half and _may_have_stored(error)


def _may_have_stored(error: BrokerUnreachable | Refused) -> bool:
    """Whether the broker may have the message all the same: it was sent, and nobody has heard what became of it."""
    return isinstance(error, BrokerUnreachable) and not isinstance(error, NotConnected)
