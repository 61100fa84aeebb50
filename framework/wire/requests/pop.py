"""POP: leases on single messages. All but the batch acknowledgement carry their content in the header; JSON only."""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, Int32, RequestHeader, wire
from framework.wire.requests.offset import GroupQueueRequest


class PopRequest(GroupQueueRequest, code=RequestCode.POP_MESSAGE):
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


class PopAnswer(Header):
    """The three texts hold what each message's receipt is made of."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckRequest(GroupQueueRequest, code=RequestCode.ACK_MESSAGE):
    extra_info: str
    offset: int
    broker_name: str | None = wire("bname", default=None)


class BatchAckRequest(RequestHeader, code=RequestCode.BATCH_ACK_MESSAGE):
    """Its content is the body."""


class ChangeInvisibleTimeRequest(AckRequest, code=RequestCode.CHANGE_MESSAGE_INVISIBLETIME):
    invisible_time: int


class ChangeInvisibleTimeAnswer(Header):
    """The new receipt's parts."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32


class NotificationRequest(GroupQueueRequest, code=RequestCode.NOTIFICATION):
    poll_time: int
    born_time: int
    order: bool = False
    attempt_id: str | None = None


class NotificationAnswer(Header):
    has_msg: bool
    polling_full: bool = False


class PollingInfoRequest(GroupQueueRequest, code=RequestCode.POLLING_INFO): ...


class PollingInfoAnswer(Header):
    polling_num: Int32
