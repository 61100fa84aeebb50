"""POP: leases on single messages. All but the batch acknowledgement carry their content in the header; JSON only."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, header, wire

ANY_QUEUE = -1


@header
class PopRequest:
    CODE: ClassVar = RequestCode.POP_MESSAGE
    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: int
    poll_time: int
    born_time: int
    init_mode: Int32
    """Where a new group begins: 0 at the queue's start, 1 at its end."""
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


@header
class PopAnswer:
    """The three texts hold what each message's receipt is made of."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@header
class AckRequest:
    CODE: ClassVar = RequestCode.ACK_MESSAGE
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: int
    broker_name: str | None = wire("bname", default=None)


@header
class BatchAckRequest:
    """Its content is the body."""

    CODE: ClassVar = RequestCode.BATCH_ACK_MESSAGE


@header
class ChangeInvisibleTimeRequest:
    CODE: ClassVar = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: int
    invisible_time: int
    broker_name: str | None = wire("bname", default=None)


@header
class ChangeInvisibleTimeAnswer:
    """The new receipt's parts."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32


@header
class PeekRequest:
    CODE: ClassVar = RequestCode.PEEK_MESSAGE
    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


@header
class NotificationRequest:
    CODE: ClassVar = RequestCode.NOTIFICATION
    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: int
    born_time: int
    order: bool = False
    attempt_id: str | None = None


@header
class NotificationAnswer:
    has_msg: bool
    polling_full: bool = False


@header
class PollingInfoRequest:
    CODE: ClassVar = RequestCode.POLLING_INFO
    consumer_group: str
    topic: str
    queue_id: Int32


@header
class PollingInfoAnswer:
    polling_num: Int32
