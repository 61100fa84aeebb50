"""What may be sent: topics, bodies and properties that brokers take, and that they do not keep for themselves.

For producers, which look at each message, and for whoever keeps messages to be sent later. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from framework.errors import shorten
from framework.mistakes import MessageMistyped, MessageWrong, NameWrong
from framework.model.message import DELAY_LEVEL, Message
from framework.model.reserved import (
    AUTO_CREATE_TOPIC,
    DEAD_LETTER_PREFIX,
    LONG_TOPIC_LENGTH_MAX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TOPIC_LENGTH_MAX,
    check_name,
)

BODY_BYTES_MAX = 4 * 1024 * 1024  # maxMessageSize of clients and brokers
PROPERTIES_BYTES_MAX = 32_767  # a record stores the length in a signed short
SEPARATORS = "\x01", "\x02"
"""Behind a property's name, and behind its value."""

# Brokers refuse these whatever their permissions say, but for the one by which they make topics.
NOT_SENDABLE = frozenset({
    AUTO_CREATE_TOPIC, "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", SCHEDULE_TOPIC,
    "SELF_TEST_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
})  # fmt: skip
OF_BROKERS = "rmq_sys_"
"""So begin topics that brokers keep for themselves, such as their timer's; what is sent there they take."""
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


def check_message(message: Message, *, room: int = 0) -> None:
    """Raise ConfigurationError for what no producer could send. `room`: bytes of properties that are added later."""
    topic, given = message.topic, message.properties
    check_sendable(topic)
    check_body(topic, message.body, BODY_BYTES_MAX)
    check_properties(topic, given)
    size = room
    for name, value in given.items():
        if any(each in name or each in value for each in SEPARATORS):
            raise MessageWrong(f"message to {topic}: property {shorten(name)}={shorten(value)} holds \\x01 or \\x02")
        try:
            size += len(name.encode()) + len(value.encode()) + len(SEPARATORS)
        except UnicodeEncodeError:
            raise MessageWrong(f"message to {topic}: property {shorten(name)} holds a lone surrogate") from None
    if size > PROPERTIES_BYTES_MAX:
        raise MessageWrong(f"message to {topic}: properties of {size} bytes exceed the {PROPERTIES_BYTES_MAX}")


@lru_cache(maxsize=1_024)
def check_sendable(topic: str) -> None:
    """Raise NameWrong for a topic that nobody may send to."""
    is_long = topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
    check_name("topic", topic, LONG_TOPIC_LENGTH_MAX if is_long else TOPIC_LENGTH_MAX)
    if topic in NOT_SENDABLE or topic.startswith(OF_BROKERS):
        raise NameWrong(f"topic {topic}: reserved by RocketMQ; choose another topic")


def check_body(topic: str, body: bytes, bytes_max: int) -> None:
    """Raise MessageWrong for what brokers would refuse."""
    if not body:
        raise MessageWrong(f"message to {topic}: the body is empty, which brokers refuse; send at least one byte")
    if len(body) > bytes_max:
        raise MessageWrong(
            f"message to {topic}: a body of {len(body)} bytes exceeds the limit of {bytes_max}; keep it elsewhere and "
            "send where it is, or raise Producer(body_bytes_max=...) and the brokers' maxMessageSize"
        )


def check_properties(topic: str, given: Mapping[str, str]) -> None:
    """Raise MessageWrong for what brokers would drop or take for their own."""
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise MessageMistyped(
                f"message to {topic}: property {shorten(name)}={shorten(value)}: name and value must be texts"
            )
        if not name or not value:
            raise MessageWrong(f"message to {topic}: property {shorten(name)}={shorten(value)}: must not be empty")
        if name in RESERVED:
            raise MessageWrong(f"message to {topic}: property {name} is RocketMQ's own; choose another name")
    level = given.get(DELAY_LEVEL)
    if level is not None and not (level.isascii() and level.isdecimal()):
        raise MessageWrong(
            f"message to {topic}: property {DELAY_LEVEL}={shorten(level)}: write the number of a level; a time such as "
            '"10s" goes to delay='
        )
