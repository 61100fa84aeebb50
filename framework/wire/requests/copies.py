"""A message sent once more as a normal one, for its retry or to the dead letters: what it carries and what not. Pure.

Brokers make the copy themselves where they are asked to send back; this is for where that cannot be had.
"""

from __future__ import annotations

from framework.errors import ConfigurationError
from framework.model import delay_levels
from framework.model.death_reason import DeathReason, origin_of, without_death_reason
from framework.model.message import DELAY_LEVEL, ORIGIN_MESSAGE_ID, RETRY_TOPIC, UNIQUE_KEY, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, RETRY_PREFIX, retry_topic
from framework.wire import properties, stored
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.compression import compressed
from framework.wire.exchanges import Exchange, nothing
from framework.wire.ids import parse_offset_message_id
from framework.wire.requests.query import ViewMessageRequest
from framework.wire.requests.send import DEFAULT_QUEUES, SendRequestV2

PRODUCER = "CLIENT_INNER_PRODUCER"
# Stored in each case; not yet on disk or on a replica in the later ones.
STORED = (
    ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)  # fmt: skip
# The same, as the remark of a refusal (code 1): a stock broker answers so to a send-back whose copy it has stored.
STORED_REMARKS = frozenset({"FLUSH_DISK_TIMEOUT", "SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT"})
# With these a broker would put the message elsewhere: on a schedule, into a transaction, back to where it was popped.
RECONSUME_TIME, MAX_RECONSUME_TIMES = "RECONSUME_TIME", "MAX_RECONSUME_TIMES"
_MISLEADING = frozenset({
    DELAY_LEVEL, "TRAN_MSG", "REAL_TOPIC", "REAL_QID", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", RECONSUME_TIME,
    MAX_RECONSUME_TIMES,
})  # fmt: skip
_MISLEADING_PREFIX = "TIMER_"


def dead_letter(
    message: Message, group: str, broker: str, number: int = 0, why: DeathReason | None = None, origin: str = ""
) -> Exchange[None]:
    """The send that ends among the dead letters: its attempts are above the maximum that it names.

    So the broker has no choice, and creates the group's dead-letter topic where it has none. What it says of its end
    is left out where there is no room for it beside the sender's properties.
    """
    texts, most = _texts(message), message.attempt - 1
    if why is not None:
        told = why.properties(message, origin or origin_of(message.queue, message.queue_offset))
        try:
            return _send(message, group, {**texts, **told}, broker, number, most)
        except ConfigurationError:
            pass
    return _send(message, group, texts, broker, number, most)


def retry(
    message: Message, group: str, broker: str, number: int, *, delay_level: int, max_retries: int
) -> Exchange[None]:
    """The send that comes back after a delay, one attempt on; without a level the next one of the ladder.

    Past the maximum the broker makes a dead letter of it, as it does of what is sent back.
    """
    texts = _texts(message)
    texts[RECONSUME_TIME], texts[MAX_RECONSUME_TIMES] = str(message.attempt), str(max_retries)
    level = delay_level or delay_levels.FIRST_RETRY_LEVEL + message.attempt - 1
    texts[DELAY_LEVEL] = str(min(level, delay_levels.LEVEL_MAX))
    return _send(message, group, texts, broker, number, max_retries)


def asked_for_origin(message: Message) -> Exchange[str] | None:
    """What has a retry's broker say where the message was sent to, for it keeps what the retry was copied from as long
    as it keeps anything; None where the message is at that place itself, or says nothing of it.

    What a producer wrote names nothing: ValueError where the record found is not this message.
    """
    if not message.queue.topic.startswith(RETRY_PREFIX):
        return None
    named = parse_offset_message_id(message.properties.get(ORIGIN_MESSAGE_ID, ""))
    if named is None:
        return None

    def read(answer: RemotingCommand) -> str:
        (found,) = stored.decode_records(answer.body)
        if found.topic != message.topic or found.properties.get(UNIQUE_KEY) != message.message_id:
            raise ValueError("another message is there now")
        return origin_of(MessageQueue(found.topic, message.queue.broker, found.queue_id), found.queue_offset)

    return Exchange(ViewMessageRequest(offset=named.commit_log_offset, topic=message.topic), read)


def _texts(message: Message) -> dict[str, str]:
    """All as it was: tags, keys, the sender's properties, the unique id; and where it was sent to at first.

    A sender's own RETRY_TOPIC names nothing: only what lies on a retry topic was put there by a broker, or by us.
    """
    texts = {
        name: value
        for name, value in without_death_reason(message.properties).items()
        if name not in _MISLEADING and not name.startswith(_MISLEADING_PREFIX)
    }
    if not message.queue.topic.startswith(RETRY_PREFIX) or ORIGIN_MESSAGE_ID not in texts:
        texts[ORIGIN_MESSAGE_ID] = message.message_id
    texts[RETRY_TOPIC] = message.topic
    return texts


def _send(
    message: Message, group: str, texts: dict[str, str], broker: str, number: int, max_retries: int
) -> Exchange[None]:
    body, sys_flag = compressed(message.body)
    header = SendRequestV2(
        producer_group=PRODUCER,
        topic=retry_topic(group),
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=DEFAULT_QUEUES,
        queue_id=number,
        sys_flag=sys_flag,
        born_timestamp=message.born_ms,
        flag=message.flag,
        properties=properties.encode(texts),
        reconsume_times=message.attempt,
        unit_mode=False,
        max_reconsume_times=max_retries,
        batch=False,
        broker_name=broker,
    )
    return Exchange(header, nothing, body, STORED)
