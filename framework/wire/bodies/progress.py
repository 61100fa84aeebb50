"""How far topics reach and groups have come; offsets that are reset. Most are maps with queues as keys."""

from __future__ import annotations

from collections.abc import Mapping

from framework.model.queue import MessageQueue
from framework.wire.bodies.shape import Body
from framework.wire.fields import wire


class TopicOffset(Body):
    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStats(Body):
    """Where each queue of a topic begins and ends."""

    offsets: Mapping[MessageQueue, TopicOffset] = wire("offsetTable", default_factory=dict)
    put_tps: float = wire("topicPutTps", default=0.0)


class OffsetWrapper(Body):
    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body):
    """A group's progress, queue by queue."""

    offsets: Mapping[MessageQueue, OffsetWrapper] = wire("offsetTable", default_factory=dict)
    consume_tps: float = 0.0


class BrokerConsumeStats(Body):
    """The progress of every group of a broker: group -> one entry a topic."""

    stats: tuple[Mapping[str, tuple[ConsumeStats, ...]], ...] = wire("consumeStatsList", default=())
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int = 0


class ResetOffsets(Body):
    """The offsets to go on from. C++ administrators get a list instead of a map; it is read as well."""

    offsets: Mapping[MessageQueue, int] = wire("offsetTable", default_factory=dict)


class ClientOffsets(Body):
    """A client's own view of its progress; towards an administrator, that of each client."""

    offsets: Mapping[MessageQueue, int] = wire("messageQueueTable", default_factory=dict)
    clients: Mapping[str, Mapping[MessageQueue, int]] = wire("consumerTable", default_factory=dict)


class QueueTimeSpan(Body):
    queue: MessageQueue | None = wire("messageQueue", default=None)
    min_timestamp: int = wire("minTimeStamp", default=0)
    max_timestamp: int = wire("maxTimeStamp", default=0)
    consume_timestamp: int = wire("consumeTimeStamp", default=0)
    delay_ms: int = wire("delayTime", default=0)


class ConsumeTimeSpan(Body):
    spans: tuple[QueueTimeSpan, ...] = wire("consumeTimeSpanSet", default=())


class AllConsumerOffsets(Body):
    """`topic@group` -> queue number -> offset."""

    offsets: Mapping[str, Mapping[int, int]] = wire("offsetTable", default_factory=dict)


class JavaOffsets(Body):
    """The file in which a Java client keeps a broadcasting group's offsets, each the next one to handle: never on the
    wire, but in its dialect. `.rocketmq_offsets/<client id>/<group>/offsets.json`.
    """

    offsets: Mapping[MessageQueue, int] = wire("offsetTable")
