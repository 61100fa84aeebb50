"""A message on its way to the dead letters by a plain send: what it carries, and what it must not. Pure."""

from __future__ import annotations

from framework.client.outgoing import COMPRESS_ABOVE, DEFAULT_QUEUES
from framework.model.message import DELAY_LEVEL, ORIGIN_MESSAGE_ID, RETRY_TOPIC, Message
from framework.model.reserved import AUTO_CREATE_TOPIC, retry_topic
from framework.wire import properties
from framework.wire.codes import ResponseCode
from framework.wire.command import Command
from framework.wire.compression import Codec, compress
from framework.wire.fields import command_for
from framework.wire.requests.send import SendRequestV2

PRODUCER = "CLIENT_INNER_PRODUCER"
# Stored in each case; not yet on disk or on a replica in the later ones.
STORED = (
    ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)  # fmt: skip
# With these a broker would put the message elsewhere: on a schedule, into a transaction, back to where it was popped.
_MISLEADING = frozenset({
    DELAY_LEVEL, "TRAN_MSG", "REAL_TOPIC", "REAL_QID", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", "RECONSUME_TIME",
    "MAX_RECONSUME_TIMES",
})  # fmt: skip
_MISLEADING_PREFIX = "TIMER_"


def dead_letter(message: Message, group: str) -> Command:
    """The send. Its attempts are above the maximum that it names, so that the broker has no choice.

    Everything else is as it was: body, tags, keys, the sender's properties, the unique id. RETRY_TOPIC names the topic
    that it was sent to, and so a dead letter shows where it came from.
    """
    texts = {
        name: value
        for name, value in message.properties.items()
        if name not in _MISLEADING and not name.startswith(_MISLEADING_PREFIX)
    }
    texts.setdefault(ORIGIN_MESSAGE_ID, message.message_id)
    texts.setdefault(RETRY_TOPIC, message.topic)
    body, sys_flag = message.body, 0
    if len(body) > COMPRESS_ABOVE:
        small = compress(body, Codec.ZLIB)
        if len(small) < len(body):
            body, sys_flag = small, Codec.ZLIB.sys_flag
    header = SendRequestV2(
        producer_group=PRODUCER,
        topic=retry_topic(group),
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=DEFAULT_QUEUES,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=message.born_ms,
        flag=message.flag,
        properties=properties.encode(texts),
        reconsume_times=message.attempt,
        unit_mode=False,
        max_reconsume_times=message.attempt - 1,
        batch=False,
        broker_name=message.queue.broker,
    )
    return command_for(header, body)
