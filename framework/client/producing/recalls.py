"""Taking a delayed message back before it is due: RocketMQ's handle, and what brokers say to it."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from framework.errors import ConfigurationError, Refused, shorten
from framework.mistakes import MessageWrong
from framework.wire.codes import ResponseCode
from framework.wire.exchanges import Exchange
from framework.wire.fields import from_fields
from framework.wire.requests.send import RecallAnswer, RecallRequest

_VERSION = "v1"
_PARTS_MIN = 5
_LENGTH_MAX = 4_096  # two names, a number and an id


class Handle(NamedTuple):
    """What a broker wrote into a handle: where the message waits, until when, and its id."""

    topic: str
    broker: str
    due_ms: str
    message_id: str


def read(handle: object) -> Handle:
    """ConfigurationError for what no broker gave out."""
    if not isinstance(handle, str) or not handle or len(handle) > _LENGTH_MAX:
        raise _invalid(handle)
    try:
        parts = base64.b64decode(handle.encode("ascii"), altchars=b"-_", validate=True).decode().split(" ")
    except (ValueError, binascii.Error):
        raise _invalid(handle) from None
    if parts[0] != _VERSION or len(parts) < _PARTS_MIN or not all(parts[1:_PARTS_MIN]):
        raise _invalid(handle)
    return Handle(*parts[1:_PARTS_MIN])


def _invalid(handle: object) -> ConfigurationError:
    if handle == "":
        return MessageWrong("recall: the message has no handle; levels give none, only a broker's timer does")
    return MessageWrong(
        f"recall: {shorten(handle)} is no handle; give the SendResult.recall_handle of a message with delay or at"
    )


def exchange(handle: str, place: Handle, group: str) -> Exchange[str]:
    """The request, answered with the message's id."""
    header = RecallRequest(topic=place.topic, recall_handle=handle, producer_group=group, broker_name=place.broker)
    return Exchange(header, lambda answer: from_fields(RecallAnswer, answer.fields).msg_id)


def explained(error: Refused, broker: str) -> Refused:
    """The refusal with the way out, where there is one."""
    way = {
        int(ResponseCode.NO_PERMISSION): f"recall is switched off at {broker}: set recallMessageEnable=true there",
        int(ResponseCode.ILLEGAL_OPERATION): "it is delivered already, or about to be",
        int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED): f"{broker} knows no recall; RocketMQ has it since 5.3.2",
    }.get(error.code)
    return error if way is None else Refused(error.code, f"{error.remark}; {way}", request="recall", peer=broker)
