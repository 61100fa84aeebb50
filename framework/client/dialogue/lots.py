"""Lots: many messages that consumers get together or not at all, each once, by an end that is told once for all.

Several processes prepare half messages; one settles the lot. Its decision is a record in a topic of its own, written
before the first half message is committed. Whoever settles the same lot again goes on with what was decided, and drops
what was prepared anew. What is decided when is `lot_steps.py`'s; this takes the steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from framework import marks
from framework.client.dialogue.halves import HalfMessage, end, packed, pipelined, prepare, refuse_delay, unpacked
from framework.client.dialogue.lot_log import LotLog
from framework.client.dialogue.lot_records import Standing
from framework.client.dialogue.lot_steps import (
    AskEnds,
    CommitSome,
    LookAt,
    Pause,
    Read,
    RollBack,
    Write,
    said_of,
    settling,
)
from framework.client.producing.options import length_ms
from framework.declare.transactions import TransactionState
from framework.errors import BrokerUnreachable, FrameworkError, Refused
from framework.mistakes import ArgumentWrong, TransactionWrong
from framework.model.message import UNIQUE_KEY, Message
from framework.model.namespaces import wrap
from framework.model.queue import MessageQueue
from framework.model.reserved import HALF_TOPIC
from framework.wire import exchanges
from framework.wire.codes import ResponseCode
from framework.wire.command import V5_0_0

if TYPE_CHECKING:
    from framework.client.producer import Producer

log = structlog.get_logger()

T = TypeVar("T")

AT_ONCE = 256  # half messages, or ends, under way
PEEK = 1_024  # messages asked for at once
UNCONFIRMED = "5s"  # a stock broker drops what has waited for 3 s (waitTimeMillsInTransactionQueue)
PATIENCE = "2m"  # for a broker to restart
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_IN_ORDER = b"\x01"
_AS_THEY_COME = b"\x00"


class Lots:
    """Those of one name: `Lots(producer, "nightly", records="nightly-lots")`.

    `records` is a topic that exists, on one broker, with one queue or more; no other use is made of it. `unconfirmed`
    is how long a broker may take for an end that it did not confirm, `patience` how long a broker that is away is
    waited for. A process has one Lots of a name, and one process at a time settles.
    """

    def __init__(
        self, producer: Producer, name: str, *, records: str, unconfirmed: str | float = UNCONFIRMED,
        patience: str | float = PATIENCE,
    ) -> None:  # fmt: skip
        if not name:
            raise ArgumentWrong("Lots: name is empty; records are kept under it")
        self._unconfirmed_s = length_ms("Lots: unconfirmed", unconfirmed) / 1000
        self._patience_s = length_ms("Lots: patience", patience) / 1000
        self._producer, self.name = producer.preparing, name
        self._chance = producer.preparing.cluster.world.chance
        self._log = LotLog(producer.preparing, name, wrap(producer.preparing.namespace, records), self._insisting)
        self._known_brokers: dict[str, None] = {}

    async def create_records(self) -> None:
        """Make the topic of records on one broker, where there is none. Only before the first lot of a name: a topic
        whose broker is away looks as if there were none.
        """
        await self._insisting(self._log.create)

    async def is_decided(self, lot: int) -> bool:
        """Whether it is decided what this lot consists of: what is prepared for it now would be rolled back."""
        return await self.newest() >= lot

    async def newest(self) -> int:
        """The newest lot that is decided; -1 before the first. A lower one is over, or will never be."""
        standing: Standing = await self._insisting(self._log.standing)
        return standing.lot

    async def said_of(self, lot: int) -> str:
        """What a check function answers about a half message of this lot."""
        return said_of(await self._log.standing(), lot)

    async def prepare(self, messages: Iterable[Message]) -> bytes:
        """Store half messages, many at once; what `settle` is to be given of them. If one cannot be stored, those that
        are stored already are rolled back.

        Messages with an order key become visible in this order.
        """
        stored: dict[int, HalfMessage] = {}
        is_ordered = False

        async def one(item: tuple[int, Message]) -> None:
            nonlocal is_ordered
            index, message = item
            refuse_delay(message)
            is_ordered = is_ordered or message.order_key is not None
            stored[index] = await self._prepared(message)

        try:
            await pipelined(enumerate(messages), one, AT_ONCE, f"prepare {self.name}")
        except Exception:  # where it is cancelled, checks roll them back
            await self._roll_back(list(stored.values()))
            raise
        return (_IN_ORDER if is_ordered else _AS_THEY_COME) + packed(stored[index] for index in sorted(stored))

    async def settle(self, lot: int, prepared: Sequence[bytes]) -> None:
        """Commit a lot. When this returns, each message of it is there once, however often it is called.

        FrameworkError where it could not be brought to its end now: call it again, with what was prepared anew.
        """
        if lot < 0:
            raise ArgumentWrong(f"Lots.settle: lot {lot}: numbers begin at 0 and grow")
        mine = [half for data in prepared for half in unpacked(data[1:])]
        in_order = any(data[:1] == _IN_ORDER for data in prepared)
        steps = settling(lot, self._chance.token(12).hex(), mine, in_order=in_order)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            answer = await self._taken(step)

    async def drop(self, prepared: Sequence[bytes]) -> None:
        """Roll back what was prepared, and given to no `settle`. What is not confirmed is left to checks."""
        await self._roll_back([half for data in prepared for half in unpacked(data[1:])])

    async def _taken(self, step: object) -> Any:
        match step:
            case Read():
                return await self._insisting(self._log.standing)
            case Write(records):
                for record in records:
                    await self._insisting(partial(self._log.write, record))
            case AskEnds(queues):
                return [(queue, await self._insisting(partial(self._end_of, queue))) for queue in queues]
            case CommitSome(halves, in_order):
                if marks.rarely("commits of a lot are not told"):
                    return list(halves)
                return await self._committed(halves, in_order=in_order)
            case Pause():
                await asyncio.sleep(self._unconfirmed_s)
            case LookAt(lows):
                found: set[str] = set()
                for queue, low in lows:
                    found |= await self._insisting(partial(self._ids, queue, low))
                return found
            case RollBack(halves):
                await self._roll_back(halves)
        return None

    # Half messages

    async def _prepared(self, message: Message) -> HalfMessage:
        """Under a new id at each attempt: a half message that nobody knows of is committed by nobody."""
        return await self._insisting(partial(self._attempt, _bare(message)))

    async def _attempt(self, message: Message) -> HalfMessage:
        stored, half = await prepare(self._producer, message)
        await self._check_version(half.queue)
        if stored.code:
            await self._roll_back([half])
            raise Refused(
                stored.code, "the half message is not durable yet", request=f"lot {self.name}", peer=half.queue.broker
            )
        return half

    async def _check_version(self, queue: MessageQueue) -> None:
        if queue.broker in self._known_brokers:
            return
        answer = await self._producer.cluster.calls.answer(queue, exchanges.max_offset(queue).request())
        if answer.version < V5_0_0:
            raise TransactionWrong(
                f"lots: broker {queue.broker} is older than RocketMQ 5.0, where this is not tested; use a newer one"
            )
        self._known_brokers[queue.broker] = None

    async def _committed(self, halves: Sequence[HalfMessage], *, in_order: bool) -> list[HalfMessage]:
        """Those that were not confirmed, or not told because one before them was not."""
        left: dict[HalfMessage, None] = dict.fromkeys(halves)
        reasons: dict[str, None] = {}
        lanes: dict[object, list[HalfMessage]] = {}
        for half in halves:
            lanes.setdefault(half.queue if in_order else half, []).append(half)

        async def one(lane: list[HalfMessage]) -> None:
            for half in lane:
                try:
                    await end(self._producer, half, TransactionState.COMMIT)
                except FrameworkError as error:
                    reasons[str(error)] = None
                    return
                del left[half]

        await pipelined(lanes.values(), one, AT_ONCE, f"commit {self.name}")
        if left:
            log.warning("lot commits not confirmed", lots=self.name, messages=len(left), reason=next(iter(reasons)))
        return list(left)

    async def _roll_back(self, halves: Sequence[HalfMessage]) -> None:
        async def one(half: HalfMessage) -> None:
            try:
                await end(self._producer, half, TransactionState.ROLLBACK)
            except FrameworkError as error:
                log.debug("lot drop not confirmed", lots=self.name, message_id=half.message_id, reason=str(error))

        await pipelined(halves, one, AT_ONCE, f"roll back {self.name}")

    # Queues

    async def _end_of(self, queue: MessageQueue) -> int:
        await self._producer.cluster.routes.master_of(queue)
        return await self._producer.cluster.brokers.max_offset(queue)

    async def _ids(self, queue: MessageQueue, low: int) -> set[str]:
        """The ids of all messages from an offset on. Refused where some of them are gone."""
        cluster, found = self._producer.cluster, set[str]()
        until = await self._end_of(queue)
        if await cluster.brokers.min_offset(queue) > low:
            raise Refused(
                ResponseCode.PULL_OFFSET_MOVED,
                f"messages from offset {low} of {queue} on are gone, so nobody can tell which of lot {self.name} are "
                "committed; settle within the time that brokers keep messages",
                request=f"lot {self.name}", peer=queue.broker,
            )  # fmt: skip
        while low < until:
            messages = await cluster.brokers.peek(self._producer.group, queue, low, PEEK)
            if not messages:
                raise BrokerUnreachable(f"{queue}: nothing came at offset {low}, below its end {until}")
            found |= {message.message_id for message in messages}
            low = messages[-1].queue_offset + 1
        return found

    async def _insisting(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Again, while a broker is away or says that it is busy, for as long as `patience` says."""
        loop = asyncio.get_running_loop()
        until, attempt = loop.time() + self._patience_s, 0
        while True:
            try:
                return await ask()
            except (BrokerUnreachable, Refused) as error:
                if loop.time() >= until or not await self._is_passing(error):
                    raise
            await asyncio.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])
            attempt += 1

    async def _is_passing(self, error: BrokerUnreachable | Refused) -> bool:
        """Whether it may be over soon. Name servers forget a topic together with its broker while that restarts."""
        cluster = self._producer.cluster
        try:
            brokers = await cluster.names.route(HALF_TOPIC)
            await cluster.routes.refresh(HALF_TOPIC)
        except FrameworkError:
            return True  # nobody can be asked now
        if isinstance(error, Refused) and error.code == ResponseCode.TOPIC_NOT_EXIST:
            return brokers is None
        return isinstance(error, BrokerUnreachable) or error.code in _PASSING


def _bare(message: Message) -> Message:
    """Without what a copy of another message may bring. By its id it is known whether a half message was committed, so
    it has one of ours: of theirs two may be alike. And behind its own time for a check a broker refuses each commit.
    """
    if _BROUGHT.isdisjoint(message.properties):
        return message
    kept = {name: text for name, text in message.properties.items() if name not in _BROUGHT}
    return Message(message.topic, message.body, properties=kept)


_BROUGHT = frozenset({UNIQUE_KEY, "CHECK_IMMUNITY_TIME_IN_SECONDS"})
_PASSING = frozenset({
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY,
    ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT,
})  # fmt: skip
