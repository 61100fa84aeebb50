"""Popper: the pops of one queue, or of all queues of one broker, for one group, and what is said of popped messages.

Its answers to a pop are always values; the others raise `BrokerUnreachable` or `Refused`. It owns nothing of what was
popped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

from framework.client.brokers import BrokerCalls
from framework.core import limits
from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, RecordDamaged, is_said
from framework.model.message import Message
from framework.model.pulled import Failed, NothingNew
from framework.model.queue import MessageQueue
from framework.model.reserved import pop_retry_topic
from framework.model.subscription import Start, Subscription
from framework.wire import stored
from framework.wire.bodies.pop import BatchAck, BatchAckEntry
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import Exchange, nothing
from framework.wire.fields import command_for, from_fields
from framework.wire.requests.pop import (
    AckRequest,
    BatchAckRequest,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeRequest,
    PopAnswer,
    PopRequest,
)
from framework.wire.requests.receipts import NORMAL, RECEIPT, RETRY, Receipt, read_receipt, read_starts

NOT_SUPPORTED = "the broker cannot pop: it is older than RocketMQ 5.0; write delivery: pull"
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)
_UNKNOWN = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_INT = Struct(">i").unpack_from
_LONG = Struct(">q").unpack_from
_QUEUE_AT, _OFFSET_AT, _HEAD_BYTES = 12, 20, 28
_BITS_MAX = 1_024  # of one entry of a batch: what one pop took of one queue
ANY_QUEUE = -1
"""The number that stands for all queues of a topic at one broker."""
ANY_RETRY = -2
"""Ours alone: for all queues of what came back of the topic's popped messages."""


@dataclass(frozen=True, slots=True)
class PopTaken:
    """What one pop brought: messages, each with its receipt, and how many more wait."""

    messages: list[tuple[Message, Receipt]]
    size: int
    rest: int
    damaged: tuple[tuple[int, str], ...] = ()
    """Records that contradict themselves: where each lies in its queue, and why. They come back by themselves."""


class Popper:
    """Make one per owned queue; `pop` is called by one task at a time."""

    def __init__(
        self, calls: BrokerCalls, group: str, subscription: Subscription, queue: MessageQueue, start: Start,
        *, batch: int, invisible_ms: int,
    ) -> None:  # fmt: skip
        self._calls, self._group, self._queue = calls, group, queue
        self._subscription, self._is_from_end = subscription, start.policy == "last"
        self._batch, self.invisible_ms = batch, invisible_ms
        self._retry_topic = pop_retry_topic(group, queue.topic)
        self._popped = self._retry_topic if queue.number == ANY_RETRY else queue.topic
        """The topic that is asked for."""

    async def pop(self, most: int) -> PopTaken | NothingNew | Failed:
        """Up to `most` messages; held by the broker for 15 s while there are none. Only cancellation is raised."""
        header = PopRequest(
            consumer_group=self._group,
            topic=self._popped,
            queue_id=ANY_QUEUE if self._queue.number == ANY_RETRY else self._queue.number,
            max_msg_nums=min(most, self._batch),
            invisible_time=self.invisible_ms,
            poll_time=limits.LONG_POLL_MS,
            born_time=0,  # the broker's clock: with ours, a pop of a member whose clock is slow would seem too old
            init_mode=1 if self._is_from_end else 0,
            exp_type=self._subscription.kind,
            exp=self._subscription.expression,
            broker_name=self._queue.broker,
        )
        try:
            answer = await self._calls.answer(
                self._queue, command_for(header), "pulls", timeout_ms=limits.PULL_TIMEOUT_MS
            )
            return self._read(answer)
        except BrokerUnreachable as error:
            return Failed(str(error), is_away=is_said(error))
        except FrameworkError as error:
            return Failed(f"{self._queue}: {error}")

    def _read(self, answer: RemotingCommand) -> PopTaken | NothingNew | Failed:
        if answer.code in _NOTHING:
            return NothingNew(0, 0, 0)
        if answer.code != ResponseCode.SUCCESS:
            said = NOT_SUPPORTED if answer.code == _UNKNOWN else (answer.remark or "no remark")[:200]
            return Failed(f"code {answer.code}, {said}", answer.code)
        said_of = from_fields(PopAnswer, answer.fields)
        starts = read_starts(said_of.start_offset_info or "")
        damaged: list[tuple[int, str]] = []
        found = [(each, self._receipt(each, said_of, starts)) for each in self._messages(answer.body, damaged)]
        return PopTaken(found, len(answer.body), max(said_of.rest_num, 0), tuple(damaged))

    def _messages(self, body: bytes, damaged: list[tuple[int, str]]) -> Iterator[Message]:
        """Each in the queue that it lies in: a body holds those of several. A retry brings its receipt along. One
        that is damaged, and ends where the next one begins, holds up no other.
        """
        at = 0
        while at < len(body):
            if len(body) - at < _HEAD_BYTES:
                raise RecordDamaged(f"{self._queue}: record at byte {at}: {len(body) - at} bytes are too few for one")
            size, number = _INT(body, at)[0], _INT(body, at + _QUEUE_AT)[0]
            record = body[at : at + max(size, _HEAD_BYTES)]
            at += len(record)
            try:
                yield from self._decoded(record, number)
            except RecordDamaged as damage:
                if size != len(record):
                    raise
                damaged.append((_LONG(record, _OFFSET_AT)[0], str(damage)))

    def _decoded(self, record: bytes, number: int) -> list[Message]:
        found: list[Message] = []
        for topic in (self._popped, self._retry_topic):
            place = MessageQueue(topic, self._queue.broker, number)
            found = stored.decode(record, place, origin=self._queue.topic)
            if RECEIPT not in found[0].properties:
                break
        return found

    def _receipt(self, message: Message, said: PopAnswer, starts: dict[tuple[str, int], int]) -> Receipt:
        own = message.properties.get(RECEIPT)
        if own is not None:
            return read_receipt(own, message.queue_offset)
        kind = RETRY if self._popped == self._retry_topic else NORMAL  # as brokers say it, whoever asked for what
        start = starts.get((kind, message.queue.number))
        if start is None:
            raise ProtocolError(f"startOffsetInfo lacks queue {message.queue.number}", peer=self._queue.broker)
        return Receipt(
            start, said.pop_time, said.invisible_time, said.revive_qid, kind, self._queue.broker,
            message.queue.number, message.queue_offset,
        )  # fmt: skip

    async def acknowledge(self, receipts: Sequence[Receipt]) -> None:
        """Have the broker note that these messages are handled; durable when this returns."""
        if len(receipts) == 1:
            (receipt,) = receipts
            header = AckRequest(
                consumer_group=self._group, topic=self._topic_of(receipt), queue_id=receipt.queue,
                extra_info=receipt.text, offset=receipt.offset, broker_name=self._queue.broker,
            )  # fmt: skip
            exchange = Exchange(header, nothing, ok=(ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE))
        else:
            body = BatchAck(broker_name=self._queue.broker, acks=tuple(self._entries(receipts))).encode()
            exchange = Exchange(BatchAckRequest(), nothing, body)
        await self._calls.to_master(self._queue, exchange)

    def _entries(self, receipts: Sequence[Receipt]) -> list[BatchAckEntry]:
        """One entry per pop and queue; one of its bits per message."""
        by_pop: dict[Receipt, int] = {}
        for receipt in receipts:
            at = receipt.offset - receipt.start
            key = receipt._replace(offset=0)
            if not 0 <= at < _BITS_MAX:  # filtered stretches lie between: it is named by itself
                key, at = key._replace(start=receipt.offset), 0
            by_pop[key] = by_pop.get(key, 0) | 1 << at
        return [
            BatchAckEntry(
                group=self._group, topic=self._queue.topic, retry=key.retry, start_offset=key.start, queue_id=key.queue,
                revive_queue_id=key.revive_queue, pop_time=key.popped_ms, invisible_time=key.invisible_ms,
                bits=bits.to_bytes((bits.bit_length() + 7) // 8, "little"),
            )
            for key, bits in by_pop.items()
        ]  # fmt: skip

    async def change_time(self, receipt: Receipt, invisible_ms: int) -> Receipt | None:
        """Have the message stay invisible for so long from now; the receipt that counts then, None where none does."""
        header = ChangeInvisibleTimeRequest(
            consumer_group=self._group, topic=self._topic_of(receipt), queue_id=receipt.queue,
            extra_info=receipt.text, offset=receipt.offset, invisible_time=invisible_ms,
            broker_name=self._queue.broker,
        )  # fmt: skip

        def read(answer: RemotingCommand) -> Receipt | None:
            if answer.code == ResponseCode.NO_MESSAGE:
                return None
            said = from_fields(ChangeInvisibleTimeAnswer, answer.fields)
            return receipt.renewed(said.pop_time, said.invisible_time, said.revive_qid)

        exchange = Exchange(header, read, ok=(ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE))
        return await self._calls.to_master(self._queue, exchange)

    def _topic_of(self, receipt: Receipt) -> str:
        """Where the message lies: brokers know two namings of their retry topics."""
        if receipt.retry == NORMAL:
            return self._queue.topic
        if receipt.retry == RETRY:
            return self._retry_topic
        return self._retry_topic.removesuffix(f"_{self._queue.topic}") + f"+{self._queue.topic}"
