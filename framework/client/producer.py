"""Producer: chooses a queue, sends, and tries another broker where that fails.

A send that timed out may have been stored all the same: the next attempt then makes a second copy, with the same
message id, as with the Java client. It owns the turn of each topic's queues; what may be sent is `outgoing.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.client.outgoing import COMPRESS_ABOVE, DEFAULT_QUEUES, Outgoing, SendResult, prepare, prepare_batch
from framework.client.presence import Presence
from framework.client.send_trace import SendTrace
from framework.client.tracing import SEND_TIMEOUT, producer_group
from framework.errors import BrokerUnreachable, ConfigurationError, Refused, RequestTimedOut
from framework.model.durations import to_ms
from framework.model.message import Message
from framework.model.namespaces import unwrap, wrap
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, GROUP_LENGTH_MAX, TRACE_TOPIC, check_name
from framework.net.credentials import Credentials
from framework.net.library_logs import log_as_a_library
from framework.net.real_world import real_world
from framework.net.task_tree import TaskTree
from framework.net.tls import TlsOptions
from framework.ports import World
from framework.wire.bodies.route import MASTER
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.compression import Compression
from framework.wire.exchanges import raise_for
from framework.wire.fields import from_fields
from framework.wire.ids import UniqueKeys
from framework.wire.requests.send import SendAnswer

# Codes that mean "stored", the later ones without the disk's or a replica's word yet.
STORED = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
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
RETRIES = 2
TIMEOUT = "10s"
SAME_BROKER_PAUSE_SECONDS = 0.2  # before a broker is tried again that has just failed, where there is no other


class Producer:
    """Sends messages: `async with Producer(name_servers=["127.0.0.1:9876"]) as producer: await producer.send(...)`.

    Inside an application `Producer(cluster=app.cluster)` shares its connections and, unless `namespace` is given, its
    namespace.
    """

    def __init__(
        self,
        *,
        name_servers: str | Sequence[str] = (),
        cluster: Cluster | None = None,
        group: str = "framework_producer",
        retries: int = RETRIES,
        timeout: str | float = TIMEOUT,
        compression: str = "zlib",
        compress_above: int = COMPRESS_ABOVE,
        credentials: Credentials | None = None,
        tls: TlsOptions | None = None,
        address_map: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        namespace: str | None = None,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
        world: World | None = None,
    ) -> None:
        if (cluster is None) == (not name_servers):
            raise ConfigurationError("Producer: give either name_servers or cluster")
        if compression not in _CODECS:
            raise ConfigurationError(f"Producer: compression {compression!r}: use {', '.join(_CODECS)}")
        self._namespace = cluster.options.namespace if namespace is None and cluster is not None else namespace or ""
        self._group = check_name("producer group", wrap(self._namespace, group), GROUP_LENGTH_MAX)
        self._retries, self._timeout_ms = retries, _timeout_ms(timeout)
        self._codec, self._compress_above = _CODECS[compression], compress_above
        if cluster is None and world is None:
            log_as_a_library()
        self._world = cluster.world if cluster is not None else world or real_world()
        self._shared = cluster
        self._own: Cluster | None = None
        self._presence: Presence | None = None
        self._options: ClusterOptions | None = None
        chance, identity = self._world.chance, self._world.identity
        if cluster is None:
            servers = (name_servers,) if isinstance(name_servers, str) else tuple(name_servers)
            self._options = ClusterOptions(
                name_servers=servers,
                client_id=f"{identity.host}@{identity.process}#{chance.token(6).hex()}",
                credentials=credentials,
                tls=tls,
                address_map=dict(address_map or {}),
                allow=tuple(allow),
            )
        self._keys = UniqueKeys(identity.host, identity.process, int.from_bytes(chance.token(4)))
        self._turns: dict[str, int] = {}
        self._tree = TaskTree()
        self._is_tracing = False
        self._trace = SendTrace(group, trace_topic, self._world, self._namespace) if trace else None

    # Life

    async def start(self) -> None:
        """Start to refresh routes. Connections are opened when they are needed. A shared cluster needs no start.

        Brokers that get messages also get heartbeats, so administrators see this producer.
        """
        if self._own is not None:
            self._check_loop("start")
        if self._options is not None and self._own is None:
            presence = self._presence = Presence(self._group)
            self._own = Cluster(self._world, self._options, on_connected=presence.connected)
            self._tree.start(self._own.routes.run(), name="producer routes")
            self._tree.start(presence.run(self._own), name="producer heartbeats")

    async def stop(self) -> None:
        """Close what `start` opened. Sends under way fail."""
        if self._own is not None:
            self._check_loop("stop")
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
            raise ConfigurationError("Producer: start it first, or use `async with Producer(...)`")
        return cluster

    # Sending

    async def send(
        self,
        message: Message | str,
        body: bytes | str | None = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        queue: MessageQueue | None = None,
        timeout: str | float | None = None,
    ) -> SendResult:
        """Send a message, or a body to a topic. Returns when a broker has stored it.

        `queue`: use this queue only, without trying others. `timeout`: the limit of all attempts together.
        """
        self._check_loop("send")
        if isinstance(message, str):
            message = Message(message, b"" if body is None else body, tags=tags, keys=keys, properties=properties)
        elif body is not None or tags or properties or tuple(keys):
            raise ConfigurationError(
                "send: a Message carries its own body, tags, keys and properties; give a topic instead"
            )
        outgoing = prepare(
            message,
            self._next_key(),
            self._world.clock.now_ms(),
            delay_level=delay_level,
            codec=self._codec,
            compress_above=self._compress_above,
            namespace=self._namespace,
        )
        (result,) = await self._deliver(outgoing, queue, timeout)
        return result

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: str | float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic in one request. All are stored, in sequence in one queue, or none."""
        self._check_loop("send_batch")
        batch = list(messages)
        keys = [self._next_key() for _ in batch]
        outgoing = prepare_batch(batch, keys, self._world.clock.now_ms(), namespace=self._namespace)
        return await self._deliver(outgoing, queue, timeout)

    def _check_loop(self, method: str) -> None:
        """Connections belong to one event loop: from another one nothing would come back, or all would break."""
        cluster = self.cluster
        if cluster.pool.is_shared:
            return  # by a fork, and its use says so
        if cluster.loop is not asyncio.get_running_loop():
            raise ConfigurationError(
                f"Producer.{method}: the producer was started in another event loop; call it there with "
                f"asyncio.run_coroutine_threadsafe(producer.{method}(...), loop)"
            )

    def _next_key(self) -> str:
        return self._keys.next(self._world.clock.now_ms())

    async def _deliver(
        self, outgoing: Outgoing, queue: MessageQueue | None, timeout: str | float | None
    ) -> list[SendResult]:
        timeout_ms = self._timeout_ms if timeout is None else _timeout_ms(timeout)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if queue is not None:
                    queue = queue._replace(topic=wrap(self._namespace, queue.topic))
                    if queue.topic != outgoing.topic:
                        raise ConfigurationError(f"send to {outgoing.topic}: queue {queue} belongs to another topic")
                    return await self._attempt(outgoing, queue)
                return await self._try_brokers(outgoing)
        except TimeoutError:
            raise RequestTimedOut(f"send to {outgoing.topic}: not stored within {timeout_ms} ms") from None

    async def _try_brokers(self, outgoing: Outgoing) -> list[SendResult]:
        routes = self.cluster.routes
        failed: dict[str, None] = {}
        last: BrokerUnreachable | Refused | None = None
        for _ in range(1 + self._retries):
            queues = await self._choices(outgoing.topic)
            queue = self._next_queue(outgoing.topic, queues, failed)
            if queue.broker in failed:
                await asyncio.sleep(SAME_BROKER_PAUSE_SECONDS)
            try:
                return await self._attempt(outgoing, queue)
            except BrokerUnreachable as error:
                last = error
                routes.refresh_soon()
            except Refused as error:
                if error.code not in WORTH_A_RETRY:
                    raise
                last = error
            failed[queue.broker] = None
        assert last is not None, "there is at least one attempt"
        if isinstance(last, Refused):
            raise last
        raise BrokerUnreachable(
            f"send to {outgoing.topic}: {1 + self._retries} attempts failed ({', '.join(failed)}); the last: {last}"
        ) from last

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue) -> list[SendResult]:
        cluster = self.cluster
        address = cluster.routes.find(queue.broker, MASTER)
        if address is None:
            await cluster.routes.refresh(queue.topic)
            address = cluster.routes.address_of(queue.broker)
        request = outgoing.request(self._group, queue)
        began_ms = self._world.clock.now_ms()
        answer = await cluster.pool.request(address, request, timeout_ms=cluster.options.request_timeout_ms)
        raise_for(answer, request.code, queue.broker, ok=STORED)
        results = _results(outgoing, queue, answer, unwrap(self._namespace, queue.topic))
        if self._trace is not None:
            self._trace.stored(outgoing, results, address, answer, began_ms)
            self._send_traces(self._trace)
        return results

    def _send_traces(self, trace: SendTrace) -> None:
        """Have a producer of their own send them, which traces nothing itself; it needs no start."""
        if not self._is_tracing:
            self._is_tracing = True
            group = producer_group(self._group, "PRODUCE-1")
            sender = Producer(cluster=self.cluster, group=group, timeout=SEND_TIMEOUT, namespace="")
            self._tree.start(trace.tracer.run(sender.send), name=f"trace {self._group}")

    async def _choices(self, topic: str) -> Sequence[MessageQueue]:
        """The queues that can be sent to; of a topic that does not exist yet, those it will get."""
        routes = self.cluster.routes
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
        return [MessageQueue(topic, queue.broker, queue.number) for queue in template if queue.number < DEFAULT_QUEUES]

    def _next_queue(self, topic: str, queues: Sequence[MessageQueue], failed: Mapping[str, None]) -> MessageQueue:
        """Each queue in turn, from a random first one; brokers that just failed only where there is no other."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._world.chance.below(len(queues))
        self._turns[topic] = turn + 1
        for step in range(len(queues)):
            queue = queues[(turn + step) % len(queues)]
            if queue.broker not in failed:
                return queue
        return queues[turn % len(queues)]

    def __repr__(self) -> str:
        return f"<Producer {self._group} by {self._shared or self._own or 'nothing yet'}>"


_CODECS = {"zlib": Compression.ZLIB, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}


def _timeout_ms(timeout: str | float) -> int:
    try:
        return max(1, to_ms(timeout))
    except ValueError as error:
        raise ConfigurationError(f"timeout: {error}") from error


def _results(outgoing: Outgoing, queue: MessageQueue, answer: RemotingCommand, topic: str) -> list[SendResult]:
    """One a message. A batch lies in one queue at consecutive offsets, its offset ids joined by commas."""
    header = from_fields(SendAnswer, answer.fields)
    place = MessageQueue(topic, queue.broker, header.queue_id)
    offset_ids = header.msg_id.split(",")
    offset_ids += [""] * (len(outgoing.message_ids) - len(offset_ids))
    return [
        SendResult(message_id, offset_ids[index], place, header.queue_offset + index, int(answer.code))
        for index, message_id in enumerate(outgoing.message_ids)
    ]
