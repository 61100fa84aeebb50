"""OpenTelemetry's context between Java's clients and ours, on a real cluster, in the properties of Java's agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from framework import Message, consumer, publishes
from framework.hooks.host import GROUP, PluginHost
from framework.settings.schema import AppSettings, PluginsSettings
from tests.interop.cluster import Addresses
from tests.interop.inside import application, running
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.patience import until

pytestmark = pytest.mark.interop

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_trace_goes_from_java_through_our_handler_to_java(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = new_topic(), new_topic()
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    chosen = AppSettings(plugins=PluginsSettings(settings={"otel": {"enabled": True}}))
    entry = EntryPoint("otel", "framework_otel.plugin:Otel", GROUP)
    host = PluginHost(chosen.plugins, chosen, discover=lambda: [entry])

    @consumer(first, f"readers-of-{first}")
    @publishes(second)
    async def pass_on(message: Message) -> Message:
        return Message(second, message.body)

    async def story() -> None:
        app = application(cluster.name_server, pass_on, plugins=host)
        async with running(app):
            await until(lambda: app.counts.handled == 1)

    java.send(cluster.name_server, first, [Outgoing(body=b"1", properties={"traceparent": f"00-{TRACE}-{SPAN}-01"})])
    asyncio.run(story())
    member = java.consume(cluster.name_server, f"readers-of-{second}", second)
    (received,) = member.received(1)
    member.leave()
    spans = {each.name: each for each in exporter.get_finished_spans()}
    sent = spans[f"send {second}"].context

    assert sent is not None
    assert f"00-{TRACE}-{sent.span_id:016x}-01" == received.properties["traceparent"]
    assert {"messaging.message.id", "messaging.client.id"} <= dict(spans[f"process {first}"].attributes or {}).keys()
