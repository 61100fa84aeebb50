"""`process TOPIC` around a micro-batch of Spark's: a span with links to the contexts of messages in a frame.

No plugin surrounds what Spark's streaming queries call, so their function opens the span itself. Which messages were
traced, one job of Spark's reads from the frame; none is started where the span is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, SpanKind

from framework_otel import names
from framework_otel.carrying import TRACE_PARENT, context_in, span_context_in
from framework_otel.plugin import VERSION

LINKS_MAX = 100
_TRACED = f"properties['{TRACE_PARENT}']"
_KEPT = "-[0-9a-f][13579bdf]$"
"""The end of a context whose sender's span is kept: the last of its eight flags is set."""


@contextmanager
def micro_batch(
    frame: Any, topic: str, group: str | None = None, *, links: int = LINKS_MAX, exceptions: bool = True
) -> Iterator[Span]:
    """A span while the body runs, with a link to each of at most `links` messages whose senders kept theirs.

    The frame needs the column `properties`. Read more than once it is pulled more than once: `persist()` it before.
    `exceptions=False` names the type of an exception alone.
    """
    if "properties" not in frame.columns:
        raise ValueError(f"micro_batch: the frame has no column 'properties'; it has {', '.join(frame.columns)}")
    name = names.fit(topic)
    attributes: dict[str, names.Value] = {
        names.SYSTEM: names.ROCKETMQ,
        names.OPERATION_NAME: names.PROCESS,
        names.OPERATION_TYPE: names.PROCESS,
        names.DESTINATION: name,
    }
    if group is not None:
        attributes[names.GROUP] = names.fit(group)
    tracer = trace.get_tracer("framework_otel", VERSION)
    with tracer.start_as_current_span(
        f"{names.PROCESS} {name}",
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            if span.is_recording():
                for sender in _senders(frame, links):
                    span.add_link(sender)
            yield span
        except Exception as error:
            names.fail(span, error, quoted=exceptions)
            raise


def _senders(frame: Any, most: int) -> list[SpanContext]:
    """The spans of senders that were kept, each once."""
    traced = frame.selectExpr(f"{_TRACED} traced").where(f"traced rlike '{_KEPT}'").limit(most).collect()
    found = (span_context_in(context_in({TRACE_PARENT: each})) for each in dict.fromkeys(row.traced for row in traced))
    return [each for each in found if each.is_valid]
