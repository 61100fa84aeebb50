"""`send TOPIC`: a span for each message that the application sends, from before it is sent until its send has ended.

Between the two hooks a span waits here, found by the context that its message carries. What is never heard of again (a
send that was given up before it was tried) is ended as such once too many wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from opentelemetry import context as contexts
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span, set_span_in_context

from framework import Message, SendResult
from framework_otel import names
from framework_otel.carrying import TRACE_PARENT, Share, context_of, properties_of_context, span_context_in
from framework_otel.names import fail
from framework_otel.settings import OtelSettings

WAITING_MAX = 10_000
"""Sends of one process that are under way; some megabytes of spans."""
NOT_TRIED = "not_tried"

_Key = tuple[str, str]


class Sends:
    """One an application; its hooks run on the event loop."""

    def __init__(self, settings: OtelSettings, tracer: Tracer) -> None:
        self._settings, self._tracer = settings, tracer
        self._share = Share(settings.sample) if settings.sample < 1 else None
        self.fixed: Mapping[str, names.Value] = {}
        self._waiting: OrderedDict[_Key, list[Span]] = OrderedDict()

    def begun(self, message: Message) -> Mapping[str, str] | None:
        """Begin its span, and answer the properties that carry the context. A message that carries one already (from
        the outbox, or passed on) keeps it, and its span is that one's child where no other is current.
        """
        topic = names.fit(message.topic)
        parent = contexts.get_current()
        is_carrying = TRACE_PARENT in message.properties
        if not get_current_span(parent).get_span_context().is_valid:
            if is_carrying:
                parent = context_of(message, parent)
            elif self._share is not None and self._share.leaves_out():
                return None
        attributes = {
            names.SYSTEM: names.ROCKETMQ,
            names.OPERATION_NAME: names.SEND,
            names.OPERATION_TYPE: names.SEND,
            names.DESTINATION: topic,
        }
        span = self._tracer.start_span(f"{names.SEND} {topic}", parent, SpanKind.PRODUCER, attributes)
        carried = None
        if not is_carrying:
            carried = properties_of_context(set_span_in_context(span, parent))
        if span.is_recording():
            span.set_attributes({**self.fixed, **names.of_message(message, body_size=self._settings.body_size)})
            if is_carrying and (origin := span_context_in(context_of(message))).is_valid:
                span.add_link(origin)
            mark = message.properties[TRACE_PARENT] if carried is None else carried.get(TRACE_PARENT)
            if mark is None:  # other propagators: nothing would find it again
                span.end()
            else:
                self._keep((mark, message.topic), span)
        return carried

    def ended(self, message: Message, result: SendResult | None, error: BaseException | None) -> None:
        mark = message.properties.get(TRACE_PARENT)
        spans = self._waiting.get((mark, message.topic)) if mark is not None else None
        if not spans:
            return  # it was not sampled
        span = spans.pop(0)
        if not spans:
            del self._waiting[(mark or "", message.topic)]
        if result is not None:
            place = f"{result.queue.broker}:{result.queue.number}"
            span.set_attributes({names.MESSAGE_ID: names.fit(result.message_id), names.PARTITION: place})
        if error is not None:
            fail(span, error, quoted=self._settings.exceptions)
        span.end()

    def _keep(self, key: _Key, span: Span) -> None:
        self._waiting.setdefault(key, []).append(span)
        if len(self._waiting) > WAITING_MAX:
            _, forgotten = self._waiting.popitem(last=False)
            for each in forgotten:
                each.set_attribute(names.ERROR_TYPE, NOT_TRIED)
                each.set_status(Status(StatusCode.ERROR, "it was given up before it was tried"))
                each.end()

    def __repr__(self) -> str:
        return f"<Sends {len(self._waiting)} under way>"
