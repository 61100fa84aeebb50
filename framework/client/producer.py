"""Producer: what users send by: its options, its life, and the ways to send.

A send that timed out may have been stored all the same: the next attempt then makes a second copy, with the same
message id, as with the Java client. What may be sent is `outgoing.py`'s; which queue, and how often, `producing/`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self

from framework.client.cluster import Cluster
from framework.client.dialogue.checks import group_of
from framework.client.dialogue.halves import Preparing, refuse_delay
from framework.client.dialogue.transactions import TransactionBlock
from framework.client.outgoing import (
    Outgoing,
    SendResult,
    collected,
    listed,
    prepare,
    prepare_batches,
)
from framework.client.presence import Presence
from framework.client.producing import recalls
from framework.client.producing.accumulating import Accumulator, timed_out
from framework.client.producing.attempts import Attempts
from framework.client.producing.bodies import Bodies
from framework.client.producing.delays import Wish, wish_of
from framework.client.producing.options import (
    CODECS,
    WhenAway,
    check_options,
    linger_ms,
    new_client_id,
    new_keys,
    reach,
    timeout_ms,
)
from framework.client.producing.told import ToldAttempts
from framework.client.tracing import SEND_TIMEOUT, SendTrace, producer_group
from framework.declare.transactions import TransactionCheck
from framework.errors import FrameworkError, PartlySent, Refused, shorten
from framework.mistakes import ArgumentMistyped, ArgumentWrong, MessageMistyped, MessageWrong, WrongMoment
from framework.model.contracts import Encodes
from framework.model.message import Message, checked_order_key, checked_queue
from framework.model.namespaces import wrap
from framework.model.queue import MessageQueue
from framework.model.reserved import GROUP_LENGTH_MAX, TRACE_TOPIC, check_name
from framework.model.sendable import BODY_BYTES_MAX
from framework.net.credentials import Credentials
from framework.net.library_logs import log_as_a_library
from framework.net.real_world import real_world
from framework.net.task_tree import TaskTree
from framework.net.tls import TlsOptions
from framework.ports import World
from framework.wire.command import RemotingCommand
from framework.wire.compression import COMPRESS_ABOVE

RETRIES = 2
TIMEOUT = "10s"
IN_FLIGHT_MAX = 1_000  # half of what one connection takes (wire/connection.py); more would not be faster
REQUEST_TIMEOUT = "3s"  # what users of Java's write, who must give one
GROUP = "framework_producer"


class Producer:
    """Sends messages: `async with Producer(name_servers=["127.0.0.1:9876"]) as producer: await producer.send(...)`.

    Inside an application `Producer(cluster=app.cluster)` shares its connections, its plugins' send hooks (but for
    `hooks=False`) and, unless `namespace` is given, its namespace.
    """

    def __init__(
        self,
        *,
        name_servers: str | Sequence[str] = (),
        cluster: Cluster | None = None,
        group: str = "",
        check: TransactionCheck | None = None,
        retries: int = RETRIES,
        timeout: str | float = TIMEOUT,
        when_away: WhenAway = "wait",
        max_in_flight: int = IN_FLIGHT_MAX,
        linger: str | float = 0,
        compression: str = "zlib",
        compress_above: int = COMPRESS_ABOVE,
        body_bytes_max: int = BODY_BYTES_MAX,
        codec: Encodes | None = None,
        credentials: Credentials | None = None,
        tls: TlsOptions | None = None,
        address_map: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        namespace: str | None = None,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
        hooks: bool = True,
        world: World | None = None,
    ) -> None:
        if (cluster is None) == (not name_servers):
            raise ArgumentWrong(
                "Producer: give either name_servers or cluster; app.cluster is None while its application has not "
                "started, so `await app.started()` first"
            )
        if not isinstance(cluster, Cluster | None):
            raise ArgumentMistyped(f"Producer: cluster={shorten(cluster)}: give app.cluster")
        check_options(
            group=group, compression=compression, when_away=when_away, max_in_flight=max_in_flight,
            retries=retries, compress_above=compress_above, body_bytes_max=body_bytes_max, codec=codec,
        )  # fmt: skip
        self._namespace = cluster.options.namespace if namespace is None and cluster is not None else namespace or ""
        group = group_of(group, check) or GROUP
        self._check = check
        self._group = check_name("producer group", wrap(self._namespace, group), GROUP_LENGTH_MAX)
        self._timeout_ms = timeout_ms(timeout)
        self._compression, self._compress_above = CODECS[compression], compress_above
        self._body_bytes_max, self._bodies = body_bytes_max, Bodies(codec)
        if cluster is None and world is None:
            log_as_a_library()
        self._world = cluster.world if cluster is not None else world or real_world()
        self._shared = cluster
        self._own: Cluster | None = None
        self._presence: Presence | None = None
        self._options = None if cluster is not None else reach(name_servers, credentials, tls, address_map, allow)
        self._keys = new_keys(self._world)
        self._tree = TaskTree()
        self._is_tracing = False
        self._trace = SendTrace(group, trace_topic, self._world, self._namespace) if trace else None
        self._hooks = cluster.send_hooks if cluster is not None and hooks else None
        attempts = Attempts if self._hooks is None else partial(ToldAttempts, self._hooks)
        self._attempts = attempts(
            lambda: self.cluster,
            self._world,
            group=self._group,
            namespace=self._namespace,
            retries=retries,
            when_away=when_away,
            max_in_flight=max_in_flight,
            on_stored=self._stored if trace else None,
        )
        self.preparing = Preparing(
            lambda: self.cluster, self._group, self._namespace, self._prepared, self._attempts, self._limit_ms
        )
        waits_ms = linger_ms(linger)
        self._accumulator = None if not waits_ms else Accumulator(waits_ms, self._collected, self._deliver)

    # Life

    async def start(self) -> None:
        """Start to refresh routes. Connections are opened when they are needed. A shared cluster needs no start.

        Brokers that get messages also get heartbeats, so administrators see this producer.
        """
        if self._own is not None or (self._shared is not None and self._shared.is_closed):
            self._check_loop("start")
        if self._options is not None and self._own is None:
            # Made before a fork and started in each child, it would have one name and one set of ids in all of them.
            self._keys, options = new_keys(self._world), replace(self._options, client_id=new_client_id(self._world))
            presence = self._presence = Presence(self._group)
            self._own = Cluster(self._world, options, on_connected=presence.connected)
            self._tree.start(self._own.routes.run(), name="producer routes")
            self._tree.start(presence.run(self._own), name="producer heartbeats")
        if self._check is not None:
            self.cluster.checks.add(self._check, self._namespace)
            self._tree.start(self.cluster.introductions.keep(self._group), name="transaction checks")

    async def stop(self) -> None:
        """Close what `start` opened, for good. Sends under way fail."""
        if self._own is not None and not self._tree.is_closed:
            self._check_loop("stop")
        if self._accumulator is not None:
            await self._accumulator.close()
        if self._trace is not None:
            await self._trace.tracer.close()
        await self._tree.close()
        if self._own is not None:
            if self._presence is not None:
                await self._presence.leave(self._own)
            await self._own.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def cluster(self) -> Cluster:
        """The cluster that messages are sent to."""
        cluster = self._shared or self._own
        if cluster is None:
            raise WrongMoment("Producer: start it first, or use `async with Producer(...)`")
        return cluster

    # Sending

    async def send(
        self,
        message: Message | str,
        body: object = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        delay: str | float | None = None,
        at: datetime | None = None,
        delay_level: int = 0,
        queue: MessageQueue | None = None,
        timeout: str | float | None = None,
    ) -> SendResult:
        """Send a message, or a body to a topic. Returns when a broker has stored it.

        A body is text, bytes, or what becomes JSON: a pydantic model, dataclass, struct, dict or list. `order_key`: all
        messages of one key go to one queue, in the order of the calls. If the queue's broker is away, `when_away` of
        the producer decides: wait until `timeout`, or fail at once; the key never changes its queue. `delay="90s"` or
        `at`, a datetime with its zone: when it is delivered, to the second; a broker without a timer takes its shortest
        level that is not shorter. `queue`: use this queue only, without trying others. `timeout`: the limit of all
        attempts together.
        """
        self._check_loop("send")
        message = self._whole(message, body, tags=tags, keys=keys, properties=properties, order_key=order_key)
        wish = wish_of(delay, at, delay_level)
        outgoing = self._prepared(message, wish, delay_level)
        if self._accumulator is not None and queue is None and not delay_level and outgoing.goes_in_batches:
            return await self._accumulated(self._accumulator, outgoing, self._limit_ms(timeout))
        (result,) = await self._attempts.deliver(outgoing, self._wrapped(queue), self._limit_ms(timeout))
        return result

    async def send_one_way(
        self,
        message: Message | str,
        body: object = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        delay: str | float | None = None,
        at: datetime | None = None,
        delay_level: int = 0,
        queue: MessageQueue | None = None,
        timeout: str | float | None = None,
    ) -> None:
        """Write a message to a broker's connection and wait for no answer: a refusal or a crash loses it silently."""
        self._check_loop("send_one_way")
        outgoing = self._prepared(
            self._whole(message, body, tags=tags, keys=keys, properties=properties, order_key=order_key),
            wish_of(delay, at, delay_level), delay_level,
        )  # fmt: skip
        await self._attempts.one_way(outgoing, self._wrapped(queue), self._limit_ms(timeout))

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: str | float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic in one request. All are stored, in sequence in one queue, or none.

        Messages that are too large for one request go in several, one after the other; `timeout` is for each. If one
        fails after others were stored, `PartlySent` says which. Messages with an order key must all have the same one,
        unless `queue` says where they go.
        """
        self._check_loop("send_batch")
        batch, results = listed(messages), list[SendResult]()
        if self._hooks is not None:
            batch = [self._hooks.begun(each) for each in batch]
        keys = [self._next_key() for _ in batch]
        for part in prepare_batches(
            batch, keys, self._world.clock.now_ms(), body_bytes_max=self._body_bytes_max, namespace=self._namespace,
            is_placed=queue is not None,
        ):  # fmt: skip
            try:
                results += await self._attempts.deliver(part, self._wrapped(queue), self._limit_ms(timeout))
            except FrameworkError as error:
                if not results:
                    raise
                raise PartlySent(
                    f"batch to {part.topic}: {len(results)} of {len(batch)} messages are stored, then: {error}", results
                ) from error
        return results

    async def recall(self, handle: str, *, timeout: str | float | None = None) -> str:
        """Take a delayed message back before it is due, by the `recall_handle` of its `SendResult`; its message id.

        Raises Refused if it is due already, or if the broker's recall is switched off (recallMessageEnable).
        """
        self._check_loop("recall")
        place = recalls.read(handle)
        queue, asking = MessageQueue(place.topic, place.broker, 0), recalls.exchange(handle, place, self._group)
        try:
            return await self.cluster.calls.to_master(queue, asking, timeout_ms=self._limit_ms(timeout))
        except Refused as error:
            raise recalls.explained(error, place.broker) from None

    async def _accumulated(self, accumulator: Accumulator, outgoing: Outgoing, timeout_ms: int) -> SendResult:
        until = asyncio.get_running_loop().time() + timeout_ms / 1000
        if outgoing.order_key is None:
            entry = accumulator.put(outgoing, None)
        else:
            try:
                async with asyncio.timeout_at(until):
                    put = partial(accumulator.put, outgoing)
                    entry = await self._attempts.in_turn(outgoing.topic, outgoing.order_key, put)
            except TimeoutError:
                raise timed_out(outgoing, timeout_ms) from None
        return await accumulator.answer(entry, until, timeout_ms)

    def _collected(self, several: Sequence[Outgoing]) -> list[Outgoing]:
        return collected(several, self._world.clock.now_ms(), body_bytes_max=self._body_bytes_max)

    async def _deliver(self, outgoing: Outgoing) -> list[SendResult]:
        return await self._attempts.deliver(outgoing, None, self._timeout_ms)

    def _whole(
        self,
        message: Message | str,
        body: object,
        *,
        tags: str | None,
        keys: str | Iterable[str],
        properties: Mapping[str, str] | None,
        order_key: str | None,
    ) -> Message:
        if isinstance(message, str):
            if body is None:
                raise MessageMistyped(f"message to {message}: the body is missing; give bytes, text, a dict or a model")
            return Message(
                message,
                self._bodies.of(message, body),
                tags=tags,
                keys=keys,
                properties=properties,
                order_key=order_key,
            )
        if not isinstance(message, Message):
            raise MessageMistyped(f"send: {shorten(message)} is no topic; give a text, or a Message(topic, body)")
        if body is not None or tags or properties or keys or order_key is not None:
            raise MessageWrong(
                "send: a Message carries its own body, tags, keys, properties and order key; give a topic instead"
            )
        return message

    def _prepared(self, message: Message, wish: Wish | None, delay_level: int = 0) -> Outgoing:
        now_ms = self._world.clock.now_ms()
        return prepare(
            message if self._hooks is None else self._hooks.begun(message),
            self._keys.next(now_ms),
            now_ms,
            delay_level=delay_level,
            wish=wish,
            codec=self._compression,
            compress_above=self._compress_above,
            body_bytes_max=self._body_bytes_max,
            namespace=self._namespace,
        )

    async def queue_of(self, topic: str, order_key: str) -> MessageQueue:
        """The queue that messages of this order key go to, whether its broker is there or not."""
        self._check_loop("queue_of")
        if not isinstance(topic, str):
            raise MessageMistyped(f"queue_of: {shorten(topic)} is no topic; give a text")
        queue = await self._attempts.queue_of(wrap(self._namespace, topic), checked_order_key(order_key))
        return queue._replace(topic=topic)

    def transaction(self, message: Message, *, timeout: str | float | None = None) -> TransactionBlock:
        """`async with producer.transaction(message):` around a local transaction: consumers get the message if the
        block ends without an exception, and never if it raises one. Needs a check function (`@transaction_check`).
        """
        self._check_loop("transaction")
        refuse_delay(message)
        return TransactionBlock(self.preparing, message, timeout)

    async def request(
        self,
        message: Message | str,
        body: object = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        timeout: str | float = REQUEST_TIMEOUT,
    ) -> Message:
        """Send a message and wait for what its consumer replies. RequestTimedOut where no reply comes in time; the
        request may have been handled all the same.
        """
        self._check_loop("request")
        asked = self._whole(message, body, tags=tags, keys=keys, properties=properties, order_key=order_key)
        return await self.cluster.requests.ask(self.preparing, asked, timeout)

    def _check_loop(self, method: str) -> None:
        """Connections belong to one event loop: from another one nothing would come back, or all would break."""
        if self._tree.is_closed:
            raise WrongMoment(f"Producer.{method}: the producer was stopped; make a new one")
        cluster = self.cluster
        if cluster.pool.is_shared:
            return  # by a fork, and its use says so
        if cluster.is_closed:
            raise WrongMoment(f"Producer.{method}: {cluster.state()}")
        if cluster.loop.is_closed():
            raise WrongMoment(
                f"Producer.{method}: the event loop that the producer was started in is closed; make a new producer in "
                "this one, as by `async with Producer(...)` inside of asyncio.run"
            )
        if cluster.loop is not asyncio.get_running_loop():
            raise WrongMoment(
                f"Producer.{method}: the producer was started in another event loop; call it there with "
                f"asyncio.run_coroutine_threadsafe(producer.{method}(...), loop)"
            )

    def _next_key(self) -> str:
        return self._keys.next(self._world.clock.now_ms())

    def _wrapped(self, queue: MessageQueue | None) -> MessageQueue | None:
        return None if queue is None else checked_queue(queue)._replace(topic=wrap(self._namespace, queue.topic))

    def _limit_ms(self, timeout: str | float | None) -> int:
        return self._timeout_ms if timeout is None else timeout_ms(timeout)

    def _stored(
        self, outgoing: Outgoing, results: list[SendResult], address: str, answer: RemotingCommand, began_ms: int
    ) -> None:
        assert self._trace is not None
        self._trace.stored(outgoing, results, address, answer, began_ms)
        self._send_traces(self._trace)

    def _send_traces(self, trace: SendTrace) -> None:
        """Have a producer of their own send them, which traces nothing itself; it needs no start."""
        if not self._is_tracing:
            self._is_tracing = True
            group = producer_group(self._group, "PRODUCE-1")
            sender = Producer(cluster=self.cluster, group=group, timeout=SEND_TIMEOUT, namespace="", hooks=False)
            self._tree.start(trace.tracer.run(sender.send), name=f"trace {self._group}")

    def __repr__(self) -> str:
        return f"<Producer {self._group} by {self._shared or self._own or 'nothing yet'}>"
