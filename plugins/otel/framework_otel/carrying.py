"""How a context travels: as the user properties `traceparent`, `tracestate` and `baggage`, as Java's agent has it.

What is read here was written by strangers: what is malformed or too long counts as absent, and nothing is raised. Which
propagators there are, the process says (`OTEL_PROPAGATORS`). `Share` says which traces begin here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import log, log1p
from random import random  # noqa: TID251 - the SDK draws its trace ids from it, too

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from framework import Message

TRACE_PARENT = "traceparent"
_NOT_SAMPLED = "-00"
_PARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-00")
_NOTHING = Context()
_LEAST = 1e-9
"""A share below it is as good as none, and leads out of what a float can count."""
VALUE_MAX = 4_096
"""Characters of one property, in and out: all properties of a message together have 32,767 bytes at brokers."""


def context_of(message: Message, base: Context | None = None) -> Context:
    """The context that came with a message, over `base` (nothing, unless given)."""
    return context_in(message.properties, base)


def context_in(given: Mapping[str, str], base: Context | None = None) -> Context:
    """The same, of a message's properties."""
    carrier = {name: given[name] for name in propagate.get_global_textmap().fields if name in given}
    if not carrier:
        return _NOTHING if base is None else base
    readable = {name: value for name, value in carrier.items() if _is_header(value)}
    return propagate.extract(readable, context=_NOTHING if base is None else base)


def left_out(message: Message) -> Context | None:
    """The context of a message whose sender's sampler left it out, if that is all that came with it. Read without
    propagators, since nine in ten messages may be of this kind.
    """
    given = message.properties
    parent = given.get(TRACE_PARENT)
    if parent is None or not parent.endswith(_NOT_SAMPLED) or "tracestate" in given or "baggage" in given:
        return None
    found = _PARENT.fullmatch(parent)
    if found is None:
        return None
    context = trace.SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True)
    return trace.set_span_in_context(trace.NonRecordingSpan(context), _NOTHING) if context.is_valid else None


def properties_of_context(context: Context | None = None) -> Mapping[str, str]:
    """The properties that carry a context (the present one, unless given): for a message that is sent later or
    elsewhere, such as one that is written to the outbox. Empty where there is no trace.
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context=context)
    return {name: value for name, value in carrier.items() if _is_header(value)}


def span_context_in(context: Context) -> trace.SpanContext:
    """Of the span that a context names; not valid where it names none."""
    return trace.get_current_span(context).get_span_context()


def _is_header(value: str) -> bool:
    return 0 < len(value) < VALUE_MAX and value.isascii() and value.isprintable()


class Share:
    """Which of the traces that would begin here do, by chance. A sampler costs several times what a handler's call
    does, and even this is not asked for each: it says how many follow each other that are left out.

    Each answer is drawn anew, so whoever leaves out fewer changes no odds. Threads may share it.
    """

    __slots__ = ("_is_first", "_scale")

    def __init__(self, share: float) -> None:
        assert 0 < share < 1
        self._scale = 1 / log1p(-max(share, _LEAST))
        self._is_first = True

    def leaves_out(self) -> int:
        """How many, from the next one on, are none of those; 0 the first time, so that whoever tries it sees one."""
        if self._is_first:
            self._is_first = False
            return 0
        return int(log(1.0 - random()) * self._scale)
