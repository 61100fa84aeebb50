"""What a span says of how a handler or a send ended. It names types, and quotes errors cut and cleaned."""

from __future__ import annotations

import traceback

from opentelemetry.trace import Span, Status, StatusCode

from framework.hooks.verdict import NotDone
from framework_otel import names

MESSAGE_MAX, TRACE_MAX = 1_000, 8_000
TIMED_OUT = "timeout"


def fail(span: Span, error: BaseException, *, quoted: bool, kind: str = "") -> None:
    """Set the status, `error.type` and, if it is to be quoted, an event with the exception."""
    if isinstance(error, NotDone):  # the handler answered; nothing was raised
        span.set_attribute(names.ERROR_TYPE, type(error.outcome).__name__)
        span.set_status(Status(StatusCode.ERROR, names.fit(str(error), MESSAGE_MAX)))
        return
    kind = kind or _name(error)
    span.set_attribute(names.ERROR_TYPE, kind)
    text = names.fit(str(error), MESSAGE_MAX)
    span.set_status(Status(StatusCode.ERROR, (f"{kind}: {text}" if text else kind) if quoted else kind))
    if quoted:
        shown = "".join(traceback.format_exception(error))[-TRACE_MAX:]
        span.add_event(
            names.EXCEPTION,
            {
                names.EXCEPTION_TYPE: _name(error),
                names.EXCEPTION_MESSAGE: text,
                names.EXCEPTION_TRACE: names.fit(shown, TRACE_MAX),
            },
        )


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
