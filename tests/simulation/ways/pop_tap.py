"""PopTap: reads on the wire what brokers and members say to each other about popped messages, and writes it down.

A broker's answers carry the time of the pop by its own wall clock; the time of the run is reckoned from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from framework.errors import FrameworkError
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import pop_retry_topic
from framework.testing.sim.world import WALL_CLOCK_START_MS
from framework.wire import stored
from framework.wire.bodies.pop import BatchAck
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.receipts import NORMAL, RECEIPT, read_receipt
from tests.simulation.recorder import Recorder
from tests.simulation.ways.facts import AckAsked, Acked, Handed, TimeAsked, TimeChanged
from tests.wire.frames import decode_frame

Place = tuple[MessageQueue, int]
Meant = tuple[str, Place, int]
"""Group, place and receipt."""
_SIZE, _QUEUE_AT = Struct(">i").unpack_from, 12
ANSWERED_WITHIN_S = 15.0
"""Longer is no group of writes under way; a broker's clock was set between."""
STEPS_S = 0.055
"""Healing sets it right by 50 ms at most: what was answered just before is then a little ahead."""


class PopTap:
    """Fits `Wiretap.pops`."""

    def __init__(self, recorder: Recorder, skew_ms: Callable[[], int]) -> None:
        """`skew_ms`: how far the brokers' wall clock is off now."""
        self._recorder, self._skew_ms = recorder, skew_ms
        self._asked: dict[tuple[int, int], tuple[str, RemotingCommand, list[Meant]]] = {}

    @property
    def _now(self) -> float:
        return self._recorder.loop.now

    def asks(self, key: tuple[int, int], who: str, whole: bytes) -> None:
        command = decode_frame(whole)
        meant = list(_meant(command))
        self._asked[key] = who, command, meant
        facts = self._recorder.history.facts
        for each in meant:
            if command.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
                facts.append(TimeAsked(self._now, who, *each, int(command.fields["invisibleTime"]) / 1000))
            else:
                facts.append(AckAsked(self._now, who, *each))

    def answers(self, key: tuple[int, int], code: int, whole: bytes) -> None:
        who, asked, meant = self._asked.pop(key)
        if code != ResponseCode.SUCCESS:
            return
        facts = self._recorder.history.facts
        if asked.code == RequestCode.POP_MESSAGE:
            facts += self._handed(who, asked, decode_frame(whole))
        elif asked.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            fields = decode_frame(whole).fields
            popped_ms = int(fields["popTime"])
            until = self._times_of(popped_ms)[0] + int(fields["invisibleTime"]) / 1000
            facts += [TimeChanged(self._now, who, *each, popped_ms, until) for each in meant]
        else:
            facts += [Acked(self._now, who, *each) for each in meant]

    def _handed(self, who: str, asked: RemotingCommand, answer: RemotingCommand) -> Iterator[Handed]:
        group, topic, broker = (asked.fields[name] for name in ("consumerGroup", "topic", "bname"))
        popped_ms, seconds = int(answer.fields["popTime"]), int(answer.fields["invisibleTime"]) / 1000
        earliest, latest = self._times_of(popped_ms)
        for message in _messages(answer.body, topic, broker):
            queue, offset = message.queue, message.queue_offset
            own = message.properties.get(RECEIPT)
            if own is not None:
                receipt = read_receipt(own, offset)
                queue, offset = MessageQueue(pop_retry_topic(group, topic), broker, receipt.queue), receipt.offset
            yield Handed(
                self._now, who, group, (queue, offset), popped_ms, message.message_id, message.attempt, latest,
                earliest + seconds,
            )  # fmt: skip

    def _times_of(self, wall_ms: int) -> tuple[float, float]:
        """When, by the run's time, a broker's wall clock said so: the earliest and the latest it may have been, which
        differ where that clock was set since.
        """
        at = (wall_ms - WALL_CLOCK_START_MS - self._skew_ms()) / 1000
        if self._now - ANSWERED_WITHIN_S < at <= self._now + STEPS_S:
            return min(at, self._now), min(at, self._now)
        return self._now - ANSWERED_WITHIN_S, self._now


def _meant(command: RemotingCommand) -> Iterator[Meant]:
    """The messages that a request is about."""
    fields = command.fields
    if command.code == RequestCode.BATCH_ACK_MESSAGE:
        body = BatchAck.decode(command.body)
        for ack in body.acks:
            topic = ack.topic if ack.retry == NORMAL else pop_retry_topic(ack.group, ack.topic)
            queue, bits = MessageQueue(topic, body.broker_name, ack.queue_id), int.from_bytes(ack.bits, "little")
            for at in range(bits.bit_length()):
                if bits >> at & 1:
                    yield ack.group, (queue, ack.start_offset + at), ack.pop_time
    elif command.code != RequestCode.POP_MESSAGE:
        offset = int(fields["offset"])
        queue = MessageQueue(fields["topic"], fields["bname"], int(fields["queueId"]))
        yield fields["consumerGroup"], (queue, offset), read_receipt(fields["extraInfo"], offset).popped_ms


def _messages(body: bytes, topic: str, broker: str) -> Iterator[Message]:
    at = 0
    while at < len(body):
        size, number = _SIZE(body, at)[0], _SIZE(body, at + _QUEUE_AT)[0]
        try:
            yield from stored.decode(body[at : at + size], MessageQueue(topic, broker, number))
        except FrameworkError:
            return  # damaged on its way
        at += size
