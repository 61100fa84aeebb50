"""RetryCopies: has a broker store a copy of a message that failed, for a retry or among the dead letters.

When a call returns, the copy is durable. Each raises `BrokerUnreachable` where nobody answers and `Refused` where the
broker says no. It owns no state; what a copy contains is in `copies.py`.
"""

from __future__ import annotations

import structlog

from framework.client.brokers import BrokerCalls
from framework.client.retry_rooms import RetryRooms
from framework.client.routes import RouteTable
from framework.core.results import HOLDS
from framework.errors import (
    BodyUndecodable,
    BrokerUnreachable,
    ConfigurationError,
    FrameworkError,
    ProtocolError,
    Refused,
)
from framework.model.death_reason import DeathReason, origin_of
from framework.model.delay_levels import TO_DEAD_LETTERS
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.wire import exchanges
from framework.wire.requests import copies

log = structlog.get_logger()

SEND_BACK_TIMEOUT_MS = 5_000  # as the Java client: the broker reads its log for it


class RetryCopies:
    """At the brokers of one cluster."""

    def __init__(self, calls: BrokerCalls, routes: RouteTable, rooms: RetryRooms) -> None:
        self._calls, self._routes, self._rooms = calls, routes, rooms

    async def dead_letter(self, message: Message, group: str, why: DeathReason | None = None) -> None:
        """Have the message's own broker keep a copy among the group's dead letters; durable when this returns.

        A plain send to the retry topic, as the Java client's from an orderly group: past the maximum that it carries,
        the broker makes a dead letter of it, and creates that topic where it has none. Only so can it carry words of
        its own. Where that is refused, or the body cannot be read, the broker copies its own record without them.
        Asked twice because an answer was lost, it keeps two copies.
        """
        origin = "" if why is None else await self._origin(message)
        try:
            copy = copies.dead_letter(message, group, message.queue.broker, why=why, origin=origin)
            await self._calls.to_master(message.queue, copy, timeout_ms=SEND_BACK_TIMEOUT_MS)
        except (BodyUndecodable, ConfigurationError, Refused, *HOLDS) as error:
            log.debug("dead-letter reason omitted", group=group, queue=str(message.queue), reason=str(error))
            await self.send_back(message, group, delay_level=TO_DEAD_LETTERS, max_retries=message.attempt)

    async def _origin(self, message: Message) -> str:
        """Where the message was sent to: a retry's own place is one of the retry topic, and says little."""
        asking = copies.asked_for_origin(message)
        if asking is not None:
            try:
                return await self._calls.to_master(message.queue, asking)
            except (FrameworkError, ValueError) as error:
                log.debug("dead-letter origin unknown", queue=str(message.queue), reason=str(error))
        return origin_of(message.queue, message.queue_offset)

    async def send_back(self, message: Message, group: str, *, delay_level: int, max_retries: int) -> None:
        """Have the message's own broker copy it into the group's retry topic (or, at the last, its dead letters).

        When this returns, the copy is durable. Asked twice because an answer was lost, the broker makes two copies.
        Refused also where a broker would say yes and keep nothing.
        """
        sending_back = exchanges.send_back(
            message, group, delay_level=delay_level, max_retries=max_retries, origin_topic=message.topic
        )
        try:
            await self._calls.to_master(message.queue, sending_back, timeout_ms=SEND_BACK_TIMEOUT_MS)
        except Refused as error:
            if error.remark not in copies.STORED_REMARKS:
                raise
        else:
            await self._rooms.confirm(group, message.queue.broker)

    async def send_again(
        self, message: Message, group: str, *, delay_level: int, max_retries: int, spares_own: bool,
        why: DeathReason | None = None,
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
                copy = copies.dead_letter(message, group, queue.broker, queue.number, why)
            else:
                copy = copies.retry(
                    message, group, queue.broker, queue.number, delay_level=delay_level, max_retries=max_retries
                )
            try:
                await self._calls.to_master(queue, copy)
            except (BrokerUnreachable, Refused, ProtocolError) as error:
                last = error
            else:
                return queue.broker
        self._routes.refresh_soon()  # what can be written may have changed since we asked
        raise last
