"""Sending: new messages, replies, batches, copies for a retry, recalls.

`SendRequestV2` is what modern clients send: the same fields under names of one letter. Batches (320) and replies (324,
325) share these headers; `command_for(header, body, code=...)` says which.
"""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, Int32, RequestHeader, wire

DEFAULT_QUEUES = 4  # defaultTopicQueueNums: how many queues a topic gets that a send creates


class SentMessage(RequestHeader):
    """What a message is sent with, and handed on."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32


class SendRequest(SentMessage, code=RequestCode.SEND_MESSAGE):
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = wire("bname", default=None)


class SendRequestV2(RequestHeader, code=RequestCode.SEND_MESSAGE_V2):
    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c")
    default_topic_queue_nums: Int32 = wire("d")
    queue_id: Int32 = wire("e")
    sys_flag: Int32 = wire("f")
    born_timestamp: int = wire("g")
    flag: Int32 = wire("h")
    properties: str | None = wire("i", default=None)
    reconsume_times: Int32 | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: Int32 | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    broker_name: str | None = wire("n", default=None)


class PushReplyRequest(SentMessage, code=RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT):
    """From the broker to the client that asked: the reply, with the fields of the send that brought it."""

    born_host: str
    store_host: str
    store_timestamp: int
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False


class SendAnswer(Header):
    """`msg_id` is the offset message id: for a batch, those of all its messages, joined by commas."""

    msg_id: str
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = wire("MSG_REGION", default=None)
    trace_on: str | None = wire("TRACE_ON", default=None)


class SendBackRequest(RequestHeader, code=RequestCode.CONSUMER_SEND_MSG_BACK):
    """Have the broker copy a message into the group's retry topic, to come back after a delay."""

    offset: int
    """Where the commit log holds the message."""
    group: str
    delay_level: Int32
    """-1: to the dead letters at once; 0: the broker picks 3 + reconsumeTimes."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = wire("bname", default=None)


class RecallRequest(RequestHeader, code=RequestCode.RECALL_MESSAGE):
    """Take a delayed message back before it is due."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
    broker_name: str | None = wire("bname", default=None)


class RecallAnswer(Header):
    msg_id: str
