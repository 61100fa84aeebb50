"""`process TOPIC`: a span for each attempt of a handler, the current one while it runs, with the log lines' ids.

A batch has one span, with a link for each message. A single message's span is a child of its sender's, or linked to it
(`context: link`). What the sampler leaves out costs reading the context and asking the sampler.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from opentelemetry import context as contexts
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind, Tracer, set_span_in_context
from structlog import contextvars as log_fields

from framework import Delivery, Message
from framework.errors import FrameworkError
from framework.hooks import NothingFor
from framework_otel import names
from framework_otel.carrying import TRACE_PARENT, Share, context_of, left_out, span_context_in
from framework_otel.names import TIMED_OUT, fail
from framework_otel.settings import OtelSettings

NS_PER_MS = 1_000_000

_BATCH: ContextVar[Batch | None] = ContextVar("batch", default=None)
"""The batch whose contexts are being entered, or whose handler runs."""


class Attempts:
    """One an application; shared by threads, with no state of any delivery."""

    def __init__(self, settings: OtelSettings, tracer: Tracer) -> None:
        self.settings, self._tracer = settings, tracer
        self._share = Share(settings.sample) if settings.sample < 1 else None
        self.fixed: Mapping[str, names.Value] = {}
        """Attributes of every span: known once the application has started."""
        self.broadcasting: frozenset[str] = frozenset()

    def around(self, delivery: Delivery) -> Attempt | BatchPart | NothingFor | None:
        if not delivery.is_of_batch:
            share, message = self._share, delivery.message
            if share is not None and message.get_property(TRACE_PARENT) is None and (count := share.leaves_out()):
                return NothingFor(count) if message.none_has(TRACE_PARENT) else None
            return Attempt(self, delivery)
        batch = _BATCH.get()
        if batch is None or not batch.is_entered_here():
            batch = Batch(self, delivery)
        return BatchPart(batch, delivery)

    def begun(self, delivery: Delivery, parent: contexts.Context, links: list[Link]) -> Span:
        topic = names.fit(delivery.message.topic)
        # What a sampler may go by; the rest is set where the span is kept.
        attributes = {
            names.SYSTEM: names.ROCKETMQ,
            names.OPERATION_NAME: names.PROCESS,
            names.OPERATION_TYPE: names.PROCESS,
            names.DESTINATION: topic,
            names.GROUP: delivery.group,
        }
        return self._tracer.start_span(
            f"{names.PROCESS} {topic}", parent, SpanKind.CONSUMER, attributes, links=links, record_exception=False
        )

    def tell(self, span: Span, delivery: Delivery) -> None:
        """What every kept span says of where its messages came from."""
        model = "broadcasting" if delivery.group in self.broadcasting else "clustering"
        span.set_attributes({**self.fixed, names.MODEL: model})

    def waited(self, delivery: Delivery, span: Span, origin: contexts.Context) -> None:
        """A span up to here, from when the broker stored the message, beside the attempt's; below it where that begins
        the trace. The broker's clock may be ahead of ours: it waited for no time then.
        """
        message, now = delivery.message, time.time_ns()  # noqa: TID251 - the SDK's clock
        parent = origin if span_context_in(origin).is_valid else set_span_in_context(span)
        topic = names.fit(message.topic)
        attributes: dict[str, names.Value] = {
            names.SYSTEM: names.ROCKETMQ,
            names.OPERATION_NAME: names.WAIT,
            names.DESTINATION: topic,
            names.GROUP: delivery.group,
            **self.fixed,
            **self.place_of(message),
        }
        since = min(message.stored_ms * NS_PER_MS, now)
        waited = self._tracer.start_span(
            f"{names.WAIT} {topic}", parent, SpanKind.INTERNAL, attributes, start_time=since
        )
        waited.end(now)

    def failed(self, span: Span, error: BaseException, delivery: Delivery) -> None:
        fail(span, error, quoted=self.settings.exceptions, kind=TIMED_OUT if delivery.is_expired else "")

    def of_one(self, delivery: Delivery) -> dict[str, names.Value]:
        """What differs from message to message."""
        message = delivery.message
        found = self.place_of(message)
        with suppress(FrameworkError):  # a body that cannot be opened: the handler will find out
            found |= names.of_message(message, body_size=self.settings.body_size)
        return found

    @staticmethod
    def place_of(message: Message) -> dict[str, names.Value]:
        """Which message it is, and at which attempt."""
        return {
            names.MESSAGE_ID: names.fit(message.message_id),
            names.PARTITION: f"{message.queue.broker}:{message.queue.number}",
            names.ATTEMPT: message.attempt,
        }


class Attempt:
    """A context around a handler of one message."""

    __slots__ = ("_attached", "_attempts", "_delivery", "_fields", "_span")

    def __init__(self, attempts: Attempts, delivery: Delivery) -> None:
        self._attempts, self._delivery = attempts, delivery

    def __enter__(self) -> None:
        attempts, delivery = self._attempts, self._delivery
        self._fields = None
        if attempts.settings.context == "parent" and (origin := left_out(delivery.message)) is not None:
            self._span: Span = INVALID_SPAN  # there is nothing to tell; what the handler sends is left out, too
            self._attached = contexts.attach(origin)
            return
        origin = context_of(delivery.message)
        links: list[Link] = []
        if attempts.settings.context == "link":
            sender = span_context_in(origin)
            links = [Link(sender)] if sender.is_valid else []
            origin = set_span_in_context(INVALID_SPAN, origin)  # its baggage stays
        span = self._span = attempts.begun(delivery, origin, links)
        if span.is_recording():
            attempts.tell(span, delivery)
            span.set_attributes(attempts.of_one(delivery))
            if attempts.settings.waits:
                attempts.waited(delivery, span, origin)
        self._attached = contexts.attach(set_span_in_context(span, origin))
        self._fields = in_log_lines(span, attempts.settings)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fields is not None:
            log_fields.reset_contextvars(**self._fields)
        contexts.detach(self._attached)
        if error is not None and self._span.is_recording():
            self._attempts.failed(self._span, error, self._delivery)
        self._span.end()


class Batch:
    """A context around the handler of a batch, shared by its messages' contexts: the first enters it, and leaves it."""

    def __init__(self, attempts: Attempts, delivery: Delivery) -> None:
        self.attempts = attempts
        self.span = attempts.begun(delivery, contexts.Context(), [])
        self.count = self.failed = 0
        self._open = 0
        self._place = _place()
        if self.span.is_recording():
            attempts.tell(self.span, delivery)
        self._attached = contexts.attach(set_span_in_context(self.span, contexts.Context()))
        self._fields = in_log_lines(self.span, attempts.settings)
        self._token: Token[Batch | None] = _BATCH.set(self)

    def is_entered_here(self) -> bool:
        """Whether it is open, and of this task: a task that a handler starts has the handler's context variables."""
        return self._open > 0 and self._place == _place()

    def add(self, delivery: Delivery) -> None:
        self._open += 1
        self.count += 1
        if self.span.is_recording():
            sender = span_context_in(context_of(delivery.message))
            self.span.add_link(sender, self.attempts.of_one(delivery))

    def leave(self, error: BaseException | None, delivery: Delivery) -> None:
        self._open -= 1
        if error is not None and self.span.is_recording():
            self.failed += 1
            if self.failed == 1:  # one failure may be that of all
                self.attempts.failed(self.span, error, delivery)
        if self._open == 0:
            _BATCH.reset(self._token)
            if self._fields is not None:
                log_fields.reset_contextvars(**self._fields)
            contexts.detach(self._attached)
            self.span.set_attribute(names.BATCH_COUNT, self.count)
            self.span.end()


class BatchPart:
    """One message of a batch."""

    __slots__ = ("_batch", "_delivery")

    def __init__(self, batch: Batch, delivery: Delivery) -> None:
        self._batch, self._delivery = batch, delivery

    def __enter__(self) -> None:
        self._batch.add(self._delivery)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._batch.leave(error, self._delivery)


def in_log_lines(span: Span, settings: OtelSettings) -> Mapping[str, Token[Any]] | None:
    """Have log lines from here on carry the span's ids, until the tokens are given back; None where they do not."""
    of_span = span.get_span_context()
    if not settings.logs or not of_span.is_valid or not span.is_recording():
        return None
    return log_fields.bind_contextvars(
        trace_id=format(of_span.trace_id, "032x"), span_id=format(of_span.span_id, "016x")
    )


def _place() -> object:
    """The task that runs, or the thread where none does."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.get_ident()
