"""A message on its way out: checked, keyed, compressed and put into the send request. Pure but for the codec's import.

Owns what a producer may send. It knows neither queues' brokers nor connections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.errors import ConfigurationError, shorten
from framework.model import delay_levels
from framework.model.message import DELAY_LEVEL, UNIQUE_KEY, WAIT_STORE, Message
from framework.model.namespaces import wrap
from framework.model.queue import MessageQueue
from framework.model.reserved import (
    AUTO_CREATE_TOPIC,
    DEAD_LETTER_PREFIX,
    LONG_TOPIC_LENGTH_MAX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TOPIC_LENGTH_MAX,
    check_name,
)
from framework.wire import batch, properties
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.compression import Compression, compress
from framework.wire.fields import command_for
from framework.wire.requests.send import SendRequestV2

BODY_BYTES_MAX = 4 * 1024 * 1024  # maxMessageSize of clients and brokers
DEFAULT_QUEUES = 4  # defaultTopicQueueNums: how many queues a topic gets that a send creates
COMPRESS_ABOVE = 4_096  # compressMsgBodyOverHowmuch

# Brokers refuse these whatever their permissions say.
NOT_SENDABLE = frozenset({
    "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", SCHEDULE_TOPIC,
    "SELF_TEST_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
})  # fmt: skip
# Properties that RocketMQ writes or reads itself (MessageConst.STRING_HASH_SET), but for those that a sender may give.
RESERVED = frozenset({
    "1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "BUYER_ID", "CLUSTER", "CONSUME_START_TIME", "CORRECTION_FLAG",
    "CORRELATION_ID", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DUP_INFO", "EXTEND_UNIQ_INFO",
    "INNER_MULTI_QUEUE_OFFSET", "INSTANCE_ID", "MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MQ2_FLAG",
    "MSG_REGION", "MSG_TYPE", "ORIGIN_MESSAGE_ID", "PGROUP", "POP_CK", "POP_CK_OFFSET", "PUSH_REPLY_TIME", "REAL_QID",
    "REAL_TOPIC", "RECONSUME_TIME", "REPLY_TO_CLIENT", "RETRY_TOPIC", "TIMER_DELAY_MS", "TIMER_DELAY_SEC",
    "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_OUT_MS",
    "TIMER_ROLL_TIMES", "TRACE_ON", "TRANSFER_FLAG", "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET", "TTL", "__BORNHOST",
    "__CRC32#",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SendResult:
    """A message that a broker stored."""

    message_id: str
    """The unique key: the same through all retries."""
    offset_message_id: str
    """Broker address and place in its log."""
    queue: MessageQueue
    queue_offset: int
    code: int = 0
    """0, or 10, 11, 12: stored, but not yet on disk or on a replica when the broker answered."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is the same for each attempt at sending."""

    topic: str
    body: bytes
    properties: str
    sys_flag: int
    message_ids: tuple[str, ...]
    born_ms: int
    messages: tuple[Message, ...]
    """As they were given: what a trace tells of them."""
    is_batch: bool = False

    def request(self, group: str, queue: MessageQueue) -> RemotingCommand:
        """The send to one queue."""
        header = SendRequestV2(
            producer_group=group,
            topic=self.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=DEFAULT_QUEUES,
            queue_id=queue.number,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_ms,
            flag=0,
            properties=self.properties,
            reconsume_times=0,
            unit_mode=False,
            batch=self.is_batch,
            broker_name=queue.broker,
        )
        return command_for(header, self.body, code=RequestCode.SEND_BATCH_MESSAGE if self.is_batch else None)


def prepare(
    message: Message,
    key: str,
    now_ms: int,
    *,
    delay_level: int = 0,
    codec: Compression = Compression.ZLIB,
    compress_above: int = COMPRESS_ABOVE,
    namespace: str = "",
) -> Outgoing:
    """One message, ready to be sent; ConfigurationError says what is wrong with it. `key` is used if it has none."""
    topic = wrap(namespace, message.topic)
    texts = _checked(topic, message, key)
    if delay_level:
        texts[DELAY_LEVEL] = str(_checked_level(delay_level))
    body, sys_flag = message.body, 0
    if len(body) > compress_above:
        small = compress(body, codec)
        if len(small) < len(body):
            body, sys_flag = small, codec.sys_flag
    return Outgoing(topic, body, properties.encode(texts), sys_flag, (texts[UNIQUE_KEY],), now_ms, (message,))


def prepare_batch(messages: Sequence[Message], keys: Sequence[str], now_ms: int, *, namespace: str = "") -> Outgoing:
    """Several messages of one topic as one request: stored one after the other in one queue, or not at all."""
    if not messages:
        raise ConfigurationError("a batch needs at least one message")
    topic = wrap(namespace, messages[0].topic)
    if topic.startswith(RETRY_PREFIX):
        raise ConfigurationError(f"batch to {topic}: retry topics accept single messages only")
    parts: list[batch.BatchedMessage] = []
    for message, key in zip(messages, keys, strict=True):
        if wrap(namespace, message.topic) != topic:
            raise ConfigurationError(
                f"batch to {topic}: a message is for {shorten(message.topic)}; send one batch per topic"
            )
        texts = _checked(topic, message, key)
        if DELAY_LEVEL in texts:
            raise ConfigurationError(f"batch to {topic}: a batch cannot have delays; send the message alone")
        parts.append(batch.BatchedMessage(message.body, texts))
    body = batch.encode(parts)
    if len(body) > BODY_BYTES_MAX:
        raise ConfigurationError(
            f"batch to {topic}: {len(messages)} messages make {len(body)} bytes, above {BODY_BYTES_MAX}; send fewer"
        )
    ids = tuple(part.properties[UNIQUE_KEY] for part in parts)
    return Outgoing(
        topic, body, properties.encode({WAIT_STORE: "true"}), 0, ids, now_ms, tuple(messages), is_batch=True
    )


def _checked(topic: str, message: Message, key: str) -> dict[str, str]:
    """The message's properties as they are sent, after everything about it was looked at."""
    is_long = topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
    check_name("topic", topic, LONG_TOPIC_LENGTH_MAX if is_long else TOPIC_LENGTH_MAX)
    if topic in NOT_SENDABLE:
        raise ConfigurationError(f"topic {topic}: reserved by RocketMQ; choose another topic")
    size = len(message.body)
    if not size:
        raise ConfigurationError(f"message to {topic}: the body is empty, which brokers refuse; send at least one byte")
    if size > BODY_BYTES_MAX:
        raise ConfigurationError(f"message to {topic}: a body of {size} bytes exceeds the limit of {BODY_BYTES_MAX}")
    given = message.properties
    _check_properties(topic, given)
    return {UNIQUE_KEY: key, WAIT_STORE: "true", **given}


def _check_properties(topic: str, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"message to {topic}: property {shorten(name)}={shorten(value)}: name and value must be texts"
            )
        if not name or not value:
            raise ConfigurationError(
                f"message to {topic}: property {shorten(name)}={shorten(value)}: must not be empty"
            )
        if name in RESERVED:
            raise ConfigurationError(f"message to {topic}: property {name} is RocketMQ's own; choose another name")


def _checked_level(level: int) -> int:
    if not 0 < level <= delay_levels.LEVEL_MAX:
        raise ConfigurationError(f"delay_level {level}: use 1 to {delay_levels.LEVEL_MAX}, or 0 for no delay")
    return level
