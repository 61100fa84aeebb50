"""The names of the messaging conventions (semantic conventions 1.44), texts of strangers made fit for a span, and what
a span says of how a handler or a send ended.

It knows no tracer. All `messaging.*` names may still change there, so they stand in this file alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from opentelemetry.trace import Span, Status, StatusCode

from framework import Message
from framework.hooks.verdict import NotDone

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
NAMESPACE = "messaging.rocketmq.namespace"
GROUP = "messaging.consumer.group.name"
MODEL = "messaging.rocketmq.consumption_model"
CLIENT = "messaging.client.id"
MESSAGE_ID = "messaging.message.id"
BODY_SIZE = "messaging.message.body.size"
BATCH_COUNT = "messaging.batch.message_count"
TAG = "messaging.rocketmq.message.tag"
KEYS = "messaging.rocketmq.message.keys"
ORDER_GROUP = "messaging.rocketmq.message.group"
TYPE = "messaging.rocketmq.message.type"
DELAY_LEVEL = "messaging.rocketmq.message.delay_time_level"
ERROR_TYPE = "error.type"
EXCEPTION = "exception"
EXCEPTION_TYPE, EXCEPTION_MESSAGE = "exception.type", "exception.message"
EXCEPTION_TRACE = "exception.stacktrace"
ATTEMPT = "framework_app.attempt"
"""Ours: no convention has the number of a delivery."""

ROCKETMQ = "rocketmq"
SEND, PROCESS = "send", "process"
WAIT = "wait"
"""Ours, too: no convention has the time between the two."""
TEXT_MAX = 256
KEYS_MAX = 16
"""Keys per span: a batch of Java's may carry hundreds."""
_DELAYED = "DELAY"
MESSAGE_MAX, TRACE_MAX = 1_000, 8_000  # of an error that is quoted
TIMED_OUT = "timeout"

Value = str | int | list[str]


def fit(text: str, limit: int = TEXT_MAX) -> str:
    """The text as an exporter can write it: cut, and with `?` for what is not UTF-8. One bad value would otherwise cost
    all spans that leave with it.
    """
    return text[:limit].encode("utf-8", "replace").decode()


def of_message(message: Message, *, body_size: bool) -> dict[str, Value]:
    """What a message itself says. Properties with which Java marks kinds decide `type`, as in its conventions."""
    found: dict[str, Value] = {TYPE: "normal"}
    if tag := message.tags:
        found[TAG] = fit(tag)
    if keys := message.keys:
        found[KEYS] = [fit(key) for key in keys[:KEYS_MAX]]
    properties: Mapping[str, str] = message.properties
    if level := properties.get(_DELAYED, ""):
        found[TYPE] = "delay"
        if level.isascii() and level.isdigit():
            found[DELAY_LEVEL] = int(level[:4])
    if properties.get("TRAN_MSG") == "true":
        found[TYPE] = "transaction"
    if key := message.order_key:
        found |= {TYPE: "fifo", ORDER_GROUP: fit(key)}
    if body_size:
        found[BODY_SIZE] = len(message.body)
    return found


def fail(span: Span, error: BaseException, *, quoted: bool, kind: str = "") -> None:
    """Set the status, `error.type` and, if it is to be quoted, cut and cleaned, an event with the exception."""
    if isinstance(error, NotDone):  # the handler answered; nothing was raised
        span.set_attribute(ERROR_TYPE, type(error.outcome).__name__)
        span.set_status(Status(StatusCode.ERROR, fit(str(error), MESSAGE_MAX)))
        return
    kind = kind or _name(error)
    span.set_attribute(ERROR_TYPE, kind)
    text = fit(str(error), MESSAGE_MAX)
    span.set_status(Status(StatusCode.ERROR, (f"{kind}: {text}" if text else kind) if quoted else kind))
    if quoted:
        shown = "".join(traceback.format_exception(error))[-TRACE_MAX:]
        span.add_event(
            EXCEPTION,
            {
                EXCEPTION_TYPE: _name(error),
                EXCEPTION_MESSAGE: text,
                EXCEPTION_TRACE: fit(shown, TRACE_MAX),
            },
        )


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
