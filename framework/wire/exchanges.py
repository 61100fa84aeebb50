"""Exchanges: a request and how its answer is read, as one value.

The asynchronous client (`client/`) and the blocking reader (`reading/`) send the same ones, so that what a request
contains and which answers are believed is written once. Pure: it knows no address, no deadline and no second attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from framework.errors import ProtocolError, Refused, shorten
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, RETRY_PREFIX
from framework.wire.bodies.config import GroupConfig
from framework.wire.bodies.route import ClusterInfo, TopicList, TopicRoute
from framework.wire.bodies.shape import Body
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.fields import RequestHeader, command_for, from_fields
from framework.wire.record import Record, decode_records
from framework.wire.requests.admin import GroupConfigRequest, UpdateTopicRequest
from framework.wire.requests.offset import (
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetAnswer,
    QueryOffsetRequest,
    SearchOffsetRequest,
    UpdateOffsetRequest,
)
from framework.wire.requests.query import QueryMessageRequest, ViewMessageRequest
from framework.wire.requests.route import ClusterInfoRequest, RouteRequest, SystemTopicsRequest, TopicListRequest
from framework.wire.requests.send import SendBackRequest

T = TypeVar("T")
B = TypeVar("B", bound=Body)
H = TypeVar("H")

# No queue has ever held so many; an answer above is a lie or a torn field, and would skip everything.
OFFSET_MAX = 1 << 56
FOUND_MAX = 64


@dataclass(frozen=True, slots=True)
class Exchange(Generic[T]):
    """Send `request()`, and hand its answer to `result`."""

    header: RequestHeader
    read: Callable[[RemotingCommand], T]
    """The result in an answer whose code is one of `ok`."""
    body: bytes = b""
    ok: tuple[int, ...] = (ResponseCode.SUCCESS,)

    def request(self) -> RemotingCommand:
        """A new command for each attempt: sending one changes it."""
        return command_for(self.header, self.body)

    def accepted(self, answer: RemotingCommand, peer: str) -> RemotingCommand:
        """The answer itself; Refused where the peer says no."""
        return raise_for(answer, self.header.CODE, peer, self.ok)

    def result(self, answer: RemotingCommand, peer: str) -> T:
        """Raises Refused where the peer says no, and ProtocolError where the answer cannot be believed."""
        return self.read(self.accepted(answer, peer))


def raise_for(
    answer: RemotingCommand, request: int, peer: str, ok: tuple[int, ...] = (ResponseCode.SUCCESS,)
) -> RemotingCommand:
    """The answer itself where its code is one of `ok`, else Refused with the broker's remark, shortened."""
    if answer.code in ok:
        return answer
    raise Refused(answer.code, (answer.remark or "")[:200], request=request_name(request), peer=peer)


def nothing(_: RemotingCommand) -> None:
    """For answers that say no more than that it is done."""


def body_of(kind: type[B]) -> Callable[[RemotingCommand], B]:
    """For answers that are one body."""
    return lambda answer: kind.decode(answer.body)


def header_of(kind: type[H]) -> Callable[[RemotingCommand], H]:
    """For answers that are one header."""
    return lambda answer: from_fields(kind, answer.fields)


# Offsets


def stored_offset(group: str, queue: MessageQueue) -> Exchange[int | None]:
    """The group's stored offset, the next one to handle; None where nothing is stored."""
    header = QueryOffsetRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.number,
        set_zero_if_not_found=False,  # else newer brokers too answer 0 for a group never seen
        broker_name=queue.broker,
    )
    read = _offset_of(header, queue)
    return Exchange(
        header,
        lambda answer: None if answer.code == ResponseCode.QUERY_NOT_FOUND else read(answer),
        ok=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
    )


def commit(group: str, queue: MessageQueue, offset: int, epoch: int | None = None) -> Exchange[None]:
    """Store the group's offset, unconditionally where there is no epoch."""
    header = UpdateOffsetRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.number,
        commit_offset=offset,
        broker_name=queue.broker,
        epoch=epoch,
    )
    return Exchange(header, nothing)


def max_offset(queue: MessageQueue) -> Exchange[int]:
    """The offset that the next message will get."""
    header = MaxOffsetRequest(topic=queue.topic, queue_id=queue.number, broker_name=queue.broker)
    return Exchange(header, _offset_of(header, queue))


def min_offset(queue: MessageQueue) -> Exchange[int]:
    """The first offset that is still there."""
    header = MinOffsetRequest(topic=queue.topic, queue_id=queue.number, broker_name=queue.broker)
    return Exchange(header, _offset_of(header, queue))


def offset_at(queue: MessageQueue, timestamp_ms: int) -> Exchange[int]:
    """The first offset stored at or after an instant, by the broker's clock; the end where there is none."""
    header = SearchOffsetRequest(
        topic=queue.topic, queue_id=queue.number, timestamp=timestamp_ms, broker_name=queue.broker
    )
    return Exchange(header, _offset_of(header, queue))


def _offset_of(header: RequestHeader, queue: MessageQueue) -> Callable[[RemotingCommand], int]:
    """The offset of an answer, or ProtocolError: below 0 it would be pulled with, absurdly high it would skip all."""

    def read(answer: RemotingCommand) -> int:
        offset = from_fields(OffsetAnswer, answer.fields).offset
        if not 0 <= offset <= OFFSET_MAX:
            name = request_name(header.CODE)
            raise ProtocolError(f"{name} of {queue} answered with offset {shorten(offset)}", peer=queue.broker)
        return offset

    return read


# Looking messages up


def by_key(topic: str, key: str, *, is_unique: bool, since_ms: int = 0) -> Exchange[list[Record]]:
    """What a broker finds in a topic by a key, or by the producer's unique key: 64 at most, none without an index. It
    looks at no index from before `since_ms`, by its own clock.
    """
    header = QueryMessageRequest(
        topic=topic, key=key, max_num=FOUND_MAX, begin_timestamp=since_ms, end_timestamp=OFFSET_MAX,
        by_unique_key=is_unique,
    )  # fmt: skip
    return Exchange(header, _records, ok=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND))


def _records(answer: RemotingCommand) -> list[Record]:
    return [] if answer.code == ResponseCode.QUERY_NOT_FOUND else decode_records(answer.body)


def at_place(commit_log_offset: int) -> Exchange[list[Record]]:
    """The message at a place in one broker's log; refused where none begins there."""
    return Exchange(ViewMessageRequest(offset=commit_log_offset), _records)


# Retries


def send_back(message: Message, group: str, *, delay_level: int, max_retries: int, origin_topic: str) -> Exchange[None]:
    """Have the message's own broker copy it into the group's retry topic, or among its dead letters."""
    header = SendBackRequest(
        offset=message.commit_log_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.message_id,
        origin_topic=origin_topic,
        max_reconsume_times=max_retries,
        broker_name=message.queue.broker,
    )
    return Exchange(header, nothing)


def group_config(group: str) -> Exchange[GroupConfig]:
    """How a broker has the group; 4.x refuses it."""
    return Exchange(GroupConfigRequest(group=group), body_of(GroupConfig))


def make_retry_topic(group: str) -> Exchange[None]:
    """With one queue, as a broker makes it for a group's first member."""
    topic = f"{RETRY_PREFIX}{group}"
    return Exchange(
        UpdateTopicRequest(topic=topic, default_topic=AUTO_CREATE_TOPIC, read_queue_nums=1, write_queue_nums=1, perm=6),
        nothing,
    )


# Where things are


def route(topic: str) -> Exchange[TopicRoute | None]:
    """Where a topic's queues are; None where the name server knows no such topic."""
    # Standard JSON is what our version gets anyway; asked for as well, for servers that only look at this field.
    header = RouteRequest(topic=topic, accept_standard_json_only=True)

    def read(answer: RemotingCommand) -> TopicRoute | None:
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        try:
            return TopicRoute.decode(answer.body)
        except ProtocolError as error:
            raise ProtocolError(f"route of {topic}: {error.reason}") from error

    return Exchange(header, read, ok=(ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST))


def broker_names() -> Exchange[frozenset[str]]:
    """Every broker that is registered now; a name server forgets one whose connection ends."""
    return Exchange(ClusterInfoRequest(), lambda answer: frozenset(ClusterInfo.decode(answer.body).brokers))


def clusters() -> Exchange[tuple[str, ...]]:
    """The names of the clusters that registered brokers are of, sorted."""
    return Exchange(ClusterInfoRequest(), lambda answer: tuple(sorted(ClusterInfo.decode(answer.body).clusters)))


def topics() -> Exchange[tuple[str, ...]]:
    """Every topic that the name server knows."""
    return Exchange(TopicListRequest(), _topics)


def system_topics() -> Exchange[tuple[str, ...]]:
    """RocketMQ's own, as far as the name server names them."""
    return Exchange(SystemTopicsRequest(), _topics)


def _topics(answer: RemotingCommand) -> tuple[str, ...]:
    return TopicList.decode(answer.body).topics
