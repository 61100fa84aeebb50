"""What a broker asks of its clients."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, header


@header
class ResetClientOffsetRequest:
    """One-way: go on from the offsets in the body."""

    CODE: ClassVar = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    topic: str
    group: str
    timestamp: int = -1
    is_force: bool = False


@header
class ClientStatusRequest:
    """How far the client is, queue by queue."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    topic: str
    group: str
    client_addr: str | None = None


@header
class RunningInfoRequest:
    """Also from an administrator to the broker, which hands it on."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_RUNNING_INFO
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@header
class ConsumeDirectlyRequest:
    """Handle this one message now. From an administrator with its id, to the client with its record as the body."""

    CODE: ClassVar = RequestCode.CONSUME_MESSAGE_DIRECTLY
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
