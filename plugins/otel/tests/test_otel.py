"""The plugin in an application, with the Harness; spans are read from the SDK's in-memory exporter."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
import structlog
from framework_otel import context_of, properties_of_context
from framework_otel.attempts import Attempt, Attempts
from framework_otel.sends import WAITING_MAX, Sends
from framework_otel.settings import OtelSettings
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from structlog.testing import capture_logs

from framework import DeadLetter, Delivery, Message, Retry, RetryLater, consumer, publishes
from framework.hooks.host import GROUP
from framework.testing import Harness
from tests.tracing import NOT_SAMPLED, SAMPLED, SPAN, TRACE, Tracing, attributes, hex_of, host_with


def test_the_plugin_is_installed_under_its_name() -> None:
    found = [entry.value for entry in entry_points(group=GROUP) if entry.name == "otel"]

    assert ["framework_otel.plugin:Otel"] == found


def test_unless_it_is_enabled_nothing_is_asked_or_imported() -> None:
    calls = host_with(enabled=False).calls
    assert ((), (), ()) == (calls.around, calls.before_send, calls.after_send)
    program = (
        "import sys; from framework_otel.plugin import Otel, OtelSettings; Otel(OtelSettings()); "
        "sys.exit('opentelemetry' in sys.modules)"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


def test_a_message_s_way_is_one_trace(tracing: Tracing) -> None:
    """Its sender's span, the handler's, and what the handler published; in properties that any agent reads."""
    passed: list[Message] = []

    @consumer("orders", "billing")
    @publishes("invoices")
    async def bill(order: Message) -> Message:
        return Message("invoices", order.body, keys="k 1")

    @consumer("invoices", "mailing")
    def mail(invoice: Message) -> None:
        passed.append(invoice)

    with Harness([bill, mail], plugins=host_with()) as harness:
        harness.send(Message("orders", b"1", tags="paid", properties={"traceparent": SAMPLED}))
        harness.settle()

    names = ("process orders", "send invoices", "process invoices")
    (process,), (send,), (second,) = (tracing.spans(name) for name in names)
    assert {TRACE} == {hex_of(each)[0] for each in (process, send, second)}
    assert process.parent is not None
    assert send.parent is not None
    assert second.parent is not None
    assert SPAN == format(process.parent.span_id, "016x")
    assert hex_of(process)[1] == format(send.parent.span_id, "016x")
    assert hex_of(send)[1] == format(second.parent.span_id, "016x")
    assert f"00-{TRACE}-{hex_of(send)[1]}-01" == passed[0].properties["traceparent"]
    assert [SpanKind.CONSUMER, SpanKind.PRODUCER] == [process.kind, send.kind]
    assert {
        "messaging.system": "rocketmq", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": "orders", "messaging.consumer.group.name": "billing",
        "messaging.rocketmq.consumption_model": "clustering", "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.type": "normal", "framework_app.attempt": 1,
    }.items() <= attributes(process).items()  # fmt: skip
    assert {
        "messaging.system": "rocketmq", "messaging.operation.name": "send", "messaging.operation.type": "send",
        "messaging.destination.name": "invoices", "messaging.rocketmq.message.keys": ("k", "1"),
        "messaging.rocketmq.namespace": "", "messaging.message.id": passed[0].message_id,
    }.items() <= attributes(send).items()  # fmt: skip
    assert "messaging.client.id" in attributes(send)


@pytest.mark.parametrize("publishes_too", [True, False])
def test_a_plain_handler_runs_in_its_span(tracing: Tracing, *, publishes_too: bool) -> None:
    """Also one that publishes: it is awaited, and runs on a worker thread."""
    current: list[trace.SpanContext] = []

    def bill(order: Message) -> None:
        current.append(trace.get_current_span().get_span_context())

    handler: Any = consumer("orders", "billing")(publishes("invoices")(bill) if publishes_too else bill)
    with Harness(handler, plugins=host_with()) as harness:
        harness.send("orders", "1")
        harness.settle()

    assert current == [each.context for each in tracing.spans("process orders")]


def test_each_attempt_is_a_span_and_says_why_it_is_not_done(tracing: Tracing) -> None:
    @consumer("orders", "billing", retry=Retry(max=1, delays=["1s"]))
    async def bill(order: Message) -> object:
        if order.body == b"dead":
            return DeadLetter("no such order")
        if order.attempt == 1:
            raise KeyError("card")
        return None

    with Harness(bill, plugins=host_with()) as harness:
        harness.send(Message("orders", b"again", properties={"traceparent": SAMPLED}))
        harness.send(Message("orders", b"dead"))
        harness.settle()

    spans = tracing.spans("process orders")
    told = sorted((attributes(each).get("error.type", ""), attributes(each)["framework_app.attempt"]) for each in spans)
    assert [("", 2), ("DeadLetter", 1), ("KeyError", 1)] == told
    by_type = {attributes(each).get("error.type"): each for each in spans}
    assert StatusCode.ERROR == by_type["KeyError"].status.status_code == by_type["DeadLetter"].status.status_code
    (event,) = by_type["KeyError"].events
    assert "KeyError: 'card'" in str(dict(event.attributes or {})["exception.stacktrace"])
    assert () == tuple(by_type["DeadLetter"].events), "nothing was raised"
    assert TRACE == hex_of(by_type["KeyError"])[0] == hex_of(by_type[None])[0], "retries keep the context"


def test_a_handler_that_times_out_has_that_as_its_error(tracing: Tracing) -> None:
    import asyncio

    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        if order.attempt == 1:
            await asyncio.sleep(3_600)

    settings = {"consumers": {"billing": {"timeout": "2s"}}}
    with Harness(bill, plugins=host_with(), settings=settings) as harness:
        harness.send("orders", "1")
        harness.settle()

    assert "timeout" in [attributes(each).get("error.type") for each in tracing.spans("process orders")]


def test_exceptions_are_named_and_not_quoted_if_so_chosen(tracing: Tracing) -> None:
    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        if order.attempt == 1:
            raise ValueError("card 4111")

    with Harness(bill, plugins=host_with(exceptions=False)) as harness:
        harness.send("orders", "1")
        harness.settle()

    failed = next(each for each in tracing.spans("process orders") if "error.type" in attributes(each))
    assert ("ValueError", ()) == (failed.status.description, tuple(failed.events))


def test_a_span_can_begin_a_trace_of_its_own_with_a_link_and_keeps_the_baggage(tracing: Tracing) -> None:
    seen: list[object] = []

    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        seen.append(baggage.get_baggage("tenant"))

    with Harness(bill, plugins=host_with(context="link")) as harness:
        harness.send(Message("orders", b"1", properties={"traceparent": SAMPLED, "baggage": "tenant=eu"}))
        harness.settle()

    (span,) = tracing.spans("process orders")
    assert span.parent is None
    assert TRACE != hex_of(span)[0]
    assert [(TRACE, SPAN)] == [
        (format(link.context.trace_id, "032x"), format(link.context.span_id, "016x")) for link in span.links
    ]
    assert ["eu"] == seen


def test_how_long_a_message_waited_is_a_span_where_that_is_wanted(tracing: Tracing) -> None:
    """From when the broker stored it to each attempt: beside the attempt in its sender's trace, else below it."""

    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        if order.attempt == 1 and order.tags == "sent":
            raise ValueError("once more")

    with Harness(bill, plugins=host_with(waits=True)) as harness:
        for tag, properties in (("sent", {"traceparent": SAMPLED}), ("found", {})):
            harness.send(Message("orders", b"1", tags=tag, properties=properties))
        harness.settle()

    attempts = {hex_of(each)[1]: each for each in tracing.spans("process orders")}
    waits = tracing.spans("wait orders")
    assert 3 == len(attempts) == len(waits)
    below = [each for each in waits if each.parent and format(each.parent.span_id, "016x") in attempts]
    beside = [each for each in waits if each not in below]
    assert [1] == [attributes(each)["framework_app.attempt"] for each in below]
    assert [(TRACE, 1), (TRACE, 2)] == [(hex_of(each)[0], attributes(each)["framework_app.attempt"]) for each in beside]
    for each in waits:
        assert each.start_time is not None
        assert each.end_time is not None
        assert each.start_time <= each.end_time
        assert {"messaging.message.id", "messaging.destination.partition.id"} <= attributes(each).keys()


def test_a_broker_whose_clock_is_ahead_makes_no_wait_that_ends_before_it_begins(tracing: Tracing) -> None:
    ahead = Message("orders", b"1", stored_ms=1 << 42)
    attempts = Attempts(OtelSettings(enabled=True, waits=True), trace.get_tracer("x"))

    attempt = attempts.around(Delivery("billing", ahead, 0.0))
    assert isinstance(attempt, Attempt)
    with attempt:
        """Handled."""

    (wait,) = tracing.spans("wait orders")
    assert wait.start_time == wait.end_time


@pytest.mark.parametrize("is_async", [True, False])
def test_a_batch_is_one_span_with_a_link_for_each_message(tracing: Tracing, *, is_async: bool) -> None:
    current: list[trace.SpanContext] = []

    def note(orders: list[Message]) -> list[object]:
        current.append(trace.get_current_span().get_span_context())
        return [RetryLater("1s") if each.body == b"1" and each.attempt == 1 else None for each in orders]

    async def awaited(orders: list[Message]) -> list[object]:
        return note(orders)

    handler: Any = consumer("orders", "billing", batch=4, linger="1s")(awaited if is_async else note)
    with Harness(handler, plugins=host_with()) as harness:
        for number in range(4):
            harness.send(Message("orders", str(number), properties={"traceparent": SAMPLED}))
        harness.settle()

    spans = tracing.spans("process orders")
    assert current == [each.context for each in spans]
    assert 2 <= len(spans) < 5, "fewer than messages"
    assert 5 == sum(attributes(each)["messaging.batch.message_count"] for each in spans)
    assert all(each.parent is None for each in spans)
    links = [link for each in spans for link in each.links]
    assert {TRACE} == {format(link.context.trace_id, "032x") for link in links}
    told = [dict(link.attributes or {}) for link in links]
    assert 5 == len({(each["messaging.message.id"], each["framework_app.attempt"]) for each in told})
    assert 1 == sum(attributes(each).get("error.type") == "RetryLater" for each in spans)


@pytest.mark.parametrize("is_async", [True, False])
def test_log_lines_of_a_handler_carry_the_ids_and_others_do_not(tracing: Tracing, *, is_async: bool) -> None:
    seen: list[dict[str, Any]] = []

    def note(order: Message) -> None:
        seen.append(structlog.contextvars.get_contextvars())

    async def awaited(order: Message) -> None:
        note(order)

    handler: Any = consumer("orders", "billing")(awaited if is_async else note)
    with Harness(handler, plugins=host_with()) as harness:
        harness.send(Message("orders", b"1", properties={"traceparent": SAMPLED}))
        harness.settle()

    (span,) = tracing.spans("process orders")
    assert [dict(zip(("trace_id", "span_id"), hex_of(span), strict=True))] == seen
    assert {} == structlog.contextvars.get_contextvars()


def passed_on(*orders: Message) -> dict[bytes, Message]:
    """What a handler sends on of each order, by its body."""
    passed: dict[bytes, Message] = {}

    @consumer("orders", "billing")
    @publishes("invoices")
    async def bill(order: Message) -> Message:
        return Message("invoices", order.body)

    @consumer("invoices", "mailing")
    async def mail(invoice: Message) -> None:
        passed[invoice.body] = invoice

    with Harness([bill, mail], plugins=host_with()) as harness:
        for order in orders:
            harness.send(order)
        harness.settle()
    return passed


def test_what_is_not_sampled_makes_no_span_and_its_decision_goes_on(tracing: Tracing) -> None:
    given = {"traceparent": NOT_SAMPLED, "tracestate": "acme=1"}

    invoice = passed_on(Message("orders", b"1", properties=given))[b"1"]

    assert [] == tracing.spans("process orders") == tracing.spans("send invoices")
    _, trace_id, _, flags = invoice.properties["traceparent"].split("-")
    assert (TRACE, "00", "acme=1") == (trace_id, flags, invoice.properties["tracestate"])


def test_without_an_sdk_contexts_are_passed_on() -> None:
    passed = passed_on(Message("orders", b"1", properties={"traceparent": SAMPLED}), Message("orders", b"2"))

    assert {b"1": SAMPLED, b"2": None} == {body: each.properties.get("traceparent") for body, each in passed.items()}


HOSTILE = {
    "zeros": {"traceparent": f"00-{'0' * 32}-{'0' * 16}-01"},
    "long": {"traceparent": SAMPLED + "x" * 9_000},
    "not hexadecimal": {"traceparent": "00-ÿ" + "z" * 31 + "-b7ad6b7169203331-01"},
    "a version of the future": {"traceparent": f"ff-{TRACE}-{SPAN}-01"},
    "a state that is none": {"traceparent": "x", "tracestate": "=,=,;" * 500},
    "baggage": {"baggage": "," * 3_000 + "a=" + "%ff" * 300},
    "markup": {"traceparent": "<script>alert(1)</script>", "baggage": "\x1b[31m=\x07"},
}


@pytest.mark.parametrize("properties", HOSTILE.values(), ids=HOSTILE)
def test_a_stranger_s_context_that_is_none_counts_as_absent(tracing: Tracing, properties: dict[str, str]) -> None:
    handled: list[bytes] = []

    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        handled.append(order.body)

    host = host_with()
    with Harness(bill, plugins=host) as harness, capture_logs() as logs:
        harness.send(Message("orders", b"1", tags="<b>", keys="ÿ\x1b[2J " + "k" * 5_000, properties=properties))
        harness.settle()

    (span,) = tracing.spans("process orders")
    assert span.parent is None
    assert ([b"1"], {}) == (handled, host.calls.failures)
    assert [] == [each for each in logs if each["event"].startswith("hook")]
    longest = max(
        len(text)
        for value in attributes(span).values()
        for text in (value if isinstance(value, tuple) else [str(value)])
    )
    assert longest <= 256


def test_texts_that_are_no_utf8_can_be_exported(tracing: Tracing) -> None:
    """One value that cannot be written would cost all spans that leave with it."""
    sends = Sends(OtelSettings(enabled=True), trace.get_tracer("x"))
    message = Message("orders", b"1", tags="t\udcff", keys="k\udcfe", properties={"traceparent": SAMPLED})

    sends.begun(message)
    sends.ended(message, None, ValueError("\udcff"))

    (span,) = tracing.spans("send orders")
    assert "t?" == attributes(span)["messaging.rocketmq.message.tag"]
    span.to_json().encode("utf-8")


def test_what_the_outbox_carries_is_the_relay_s_parent(tracing: Tracing) -> None:
    """A row has the context of its handler; the relay sends it under no span, and leaves the property as it is."""
    sends = Sends(OtelSettings(enabled=True), trace.get_tracer("x"))
    with tracing.provider.get_tracer("x").start_as_current_span("handler") as handler:
        message = Message("orders", b"1", properties=properties_of_context())
    assert hex_of(handler)[1] == format(  # type: ignore[arg-type]  # the SDK's
        trace.get_current_span(context_of(message)).get_span_context().span_id, "016x"
    )

    assert sends.begun(message) is None
    sends.ended(message, None, None)

    (span,) = tracing.spans("send orders")
    assert span.parent is not None
    assert handler.get_span_context().span_id == span.parent.span_id
    assert {} == properties_of_context(), "there is no trace here"


def test_a_failed_send_says_so(tracing: Tracing) -> None:
    sends = Sends(OtelSettings(enabled=True), trace.get_tracer("x"))
    message = Message("orders", b"1", properties=sends.begun(Message("orders", b"1")))

    sends.ended(message, None, ValueError("no broker"))

    (span,) = tracing.spans("send orders")
    assert (StatusCode.ERROR, "ValueError") == (span.status.status_code, attributes(span)["error.type"])


def test_sends_that_are_never_heard_of_again_do_not_fill_the_memory(tracing: Tracing) -> None:
    sends = Sends(OtelSettings(enabled=True), trace.get_tracer("x"))
    for _ in range(WAITING_MAX + 3):
        sends.begun(Message("orders", b"1"))

    assert f"<Sends {WAITING_MAX} under way>" == repr(sends)
    assert ["not_tried"] * 3 == [attributes(each)["error.type"] for each in tracing.spans("send orders")]


def test_nothing_is_held_for_sends_that_are_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    Tracing(monkeypatch, ALWAYS_OFF)
    sends = Sends(OtelSettings(enabled=True), trace.get_tracer("x"))

    carried = sends.begun(Message("orders", b"1"))

    assert carried is not None
    assert int(carried["traceparent"][-2:], 16) & 1 == 0, "no sampled flag"
    assert "<Sends 0 under way>" == repr(sends)
