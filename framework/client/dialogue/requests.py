"""Requests: messages that are replied to. Who waits for which reply, and replies that nobody waits for any more.

A request is a message with three properties of RocketMQ's: what it is called (CORRELATION_ID), who asks
(REPLY_TO_CLIENT), and for how long (TTL). Its reply comes from a broker, as a request of that broker's to us.
"""

from __future__ import annotations

import asyncio

import structlog

from framework.client.dialogue.halves import Preparing
from framework.client.dialogue.introductions import Introductions
from framework.client.producing.options import timeout_ms
from framework.client.routes import RouteTable
from framework.errors import ConnectionLost, Refused, RequestTimedOut
from framework.model.message import Message
from framework.model.namespaces import wrap
from framework.model.queue import MessageQueue
from framework.model.reserved import reply_topic
from framework.net.channel import Channel
from framework.ports import Chance
from framework.wire import properties
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.compression import decompress
from framework.wire.fields import from_fields
from framework.wire.requests.send import PushReplyRequest

log = structlog.get_logger()

CORRELATION, REPLY_TO, TTL = "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"
# Each holds a future, a timer and a name: as many as a process could wait for before its memory shows it.
WAITING_MAX = 50_000


class Requests:
    """Those of one cluster's producers."""

    def __init__(self, introductions: Introductions, routes: RouteTable, chance: Chance, client_id: str) -> None:
        self._introductions, self._routes = introductions, routes
        self._chance, self._client_id = chance, client_id
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self.late = 0
        """Replies that came when nobody waited for them any more."""

    async def ask(self, producer: Preparing, message: Message, timeout: str | float) -> Message:
        """Send a request and wait for its reply. RequestTimedOut where none comes in time."""
        limit_ms = timeout_ms(timeout)
        topic = wrap(producer.namespace, message.topic)
        if len(self._waiting) >= WAITING_MAX:
            raise Refused(
                ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} requests wait for replies already",
                request=f"request to {message.topic}", peer="this process",
            )  # fmt: skip
        correlation = self._chance.token(16).hex()
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = waiting
        marks = {CORRELATION: correlation, REPLY_TO: self._client_id, TTL: str(limit_ms)}
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._be_known(producer.group, topic)
                await producer.send(message, marks, timeout=limit_ms / 1000)
                reply = await waiting
        except TimeoutError:
            if waiting.done() and not waiting.cancelled():
                return waiting.result()  # it came in the same turn of the loop as the time's end
            raise RequestTimedOut(f"request to {message.topic}: no reply within {limit_ms} ms") from None
        finally:
            del self._waiting[correlation]
            if waiting.done() and not waiting.cancelled():
                waiting.exception()  # else asyncio would complain of one that nobody came to see
        return reply

    async def _be_known(self, group: str, topic: str) -> None:
        """Consumers may hand their reply to any broker of the cluster: each must know us."""
        route = await self._routes.route(topic)
        for cluster in route.clusters if route is not None else ():
            await self._routes.route(reply_topic(cluster))
        await self._introductions.join(group)

    def take(self, channel: Channel, command: RemotingCommand) -> None:
        """A reply. Always accepted, as by Java's client: who replied did its part, whoever still waits."""
        header = from_fields(PushReplyRequest, command.fields)
        texts = properties.decode(header.properties or "")
        waiting = self._waiting.get(texts.get(CORRELATION, ""))
        channel.answer(command, RemotingCommand(ResponseCode.SUCCESS))
        if waiting is None or waiting.done():
            self.late += 1
            log.debug("late reply dropped", correlation=texts.get(CORRELATION), peer=channel.peer, late=self.late)
            return
        try:
            waiting.set_result(self._reply(header, texts, bytes(command.body)))
        except Exception as error:  # noqa: BLE001 - border: a body that cannot be opened is the requester's to know
            waiting.set_exception(error)

    def close(self) -> None:
        """No reply can come any more: whoever waits for one is told now, and not when its time is over."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(
                    ConnectionLost("request: the connections of this process were closed before its reply came")
                )

    def _reply(self, header: PushReplyRequest, texts: dict[str, str], body: bytes) -> Message:
        return Message(
            header.topic,
            decompress(body, header.sys_flag),
            properties=texts,
            queue=MessageQueue(header.topic, "", header.queue_id),
            born_ms=header.born_timestamp,
            stored_ms=header.store_timestamp,
        )
