"""Replies: what a consumer answers to a request, sent by a broker that hands it on at once.

The broker that the request came from is asked first: whoever asked is connected to it. A reply whose requester does not
wait any more is dropped and counted; it is no failure of the handler, and nothing would be better the second time.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from framework.client.routes import RouteTable
from framework.errors import FrameworkError
from framework.model.message import UNIQUE_KEY, Message
from framework.model.reserved import AUTO_CREATE_TOPIC, reply_topic
from framework.model.sendable import BODY_BYTES_MAX, check_body
from framework.net.pool import Pool
from framework.ports import Chance, Clock, Identity
from framework.wire import properties
from framework.wire.codes import RequestCode
from framework.wire.compression import compressed
from framework.wire.exchanges import raise_for
from framework.wire.fields import command_for
from framework.wire.ids import UniqueKeys
from framework.wire.requests.send import DEFAULT_QUEUES, SendRequestV2

log = structlog.get_logger()

CLUSTER, CORRELATION, REPLY_TO, TTL, KIND = "CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE"
_TAKEN_OVER = (CORRELATION, REPLY_TO, TTL)
GROUP = "framework_replies"
# The broker waits ten seconds for the requester's word before it answers us.
TIMEOUT_MS = 12_000


def wants_reply(request: Message) -> bool:
    """Whether the message is a request: an ordinary one has nobody to reply to."""
    texts = request.properties
    return REPLY_TO in texts and CORRELATION in texts and CLUSTER in texts


class Replies:
    """Those of one cluster's consumers."""

    def __init__(self, pool: Pool, routes: RouteTable, chance: Chance, clock: Clock, identity: Identity) -> None:
        self._pool, self._routes, self._clock = pool, routes, clock
        self.ages: Callable[[str], int | None] = lambda _: clock.now_ms()
        """Broker -> the time by which to age the requests that it stored; None: nobody can tell."""
        self._keys = UniqueKeys(identity.host, identity.process, int.from_bytes(chance.token(4)))
        self.sent = 0
        self.dropped = 0
        """Replies that nobody waited for, or that no broker took."""

    async def send(self, request: Message, body: bytes) -> bool:
        """Whether the requester got it. False: its time was over, it is gone, or the message is no request.

        MessageWrong for what can be no body: the handler's mistake, which must not look like a requester that is gone.
        """
        if not wants_reply(request):
            return False
        check_body(request.topic, body, BODY_BYTES_MAX)
        if self._is_over(request):
            self._drop(request, "its time is over")
            return False
        try:
            await self._send(request, body)
        except FrameworkError as error:
            self._drop(request, str(error))
            return False
        self.sent += 1
        return True

    async def _send(self, request: Message, body: bytes) -> None:
        topic = reply_topic(request.properties[CLUSTER])
        route = await self._routes.route(topic)
        writable = list(dict.fromkeys(queue.broker for queue in route.writable)) if route is not None else []
        came_from = request.queue.broker
        brokers = [came_from, *(broker for broker in writable if broker != came_from)]
        last: FrameworkError | None = None
        for broker in brokers:
            if last is not None and self._is_over(request):
                break  # a requester that hangs takes ten seconds of each broker, and of our worker
            try:
                await self._attempt(request, body, topic, broker)
            except FrameworkError as error:
                last = error
            else:
                return
        assert last is not None, "the broker that the request came from is tried"
        raise last

    async def _attempt(self, request: Message, body: bytes, topic: str, broker: str) -> None:
        now_ms = self._clock.now_ms()
        texts = {name: request.properties[name] for name in _TAKEN_OVER if name in request.properties}
        texts |= {KIND: "reply", UNIQUE_KEY: self._keys.next(now_ms)}
        sent, sys_flag = compressed(body)
        header = SendRequestV2(
            producer_group=GROUP,
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=DEFAULT_QUEUES,
            queue_id=0,
            sys_flag=sys_flag,
            born_timestamp=now_ms,
            flag=0,
            properties=properties.encode(texts),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=broker,
        )
        command = command_for(header, sent, code=RequestCode.SEND_REPLY_MESSAGE_V2)
        answer = await self._pool.request(self._routes.address_of(broker), command, timeout_ms=TIMEOUT_MS)
        raise_for(answer, command.code, broker)

    def _is_over(self, request: Message) -> bool:
        """Whether the requester has given up by its own word; where clocks differ, the broker finds out."""
        ttl, now_ms = request.properties.get(TTL, ""), self.ages(request.queue.broker)
        return now_ms is not None and ttl.isascii() and ttl.isdigit() and now_ms > request.born_ms + int(ttl)

    def _drop(self, request: Message, reason: str) -> None:
        self.dropped += 1
        log.info("reply dropped", topic=request.topic, message_id=request.message_id, reason=reason)
