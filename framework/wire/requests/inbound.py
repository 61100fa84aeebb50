"""What a broker asks of its clients."""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, RequestHeader
from framework.wire.requests.admin import ConsumerStatusRequest


class ResetClientOffsetRequest(RequestHeader, code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET):
    """One-way: go on from the offsets in the body."""

    topic: str
    group: str
    timestamp: int = -1
    is_force: bool = False


class ClientStatusRequest(ConsumerStatusRequest, code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT):
    """How far the client is, queue by queue."""


class RunningInfoRequest(RequestHeader, code=RequestCode.GET_CONSUMER_RUNNING_INFO):
    """Also from an administrator to the broker, which hands it on."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyRequest(RequestHeader, code=RequestCode.CONSUME_MESSAGE_DIRECTLY):
    """Handle this one message now. From an administrator with its id, to the client with its record as the body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
