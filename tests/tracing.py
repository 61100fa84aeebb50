"""An application's spans in a test: an SDK of its own, and what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON

from framework.hooks.host import GROUP, PluginHost
from framework.settings.schema import AppSettings, PluginsSettings

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


class Tracing:
    """An SDK of one test's own: the API takes one provider a process, so the plugin is given this one's tracer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sampler: Any = DEFAULT_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        monkeypatch.setattr(trace, "get_tracer", self.provider.get_tracer)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [each for each in self._exporter.get_finished_spans() if each.name == name]


def host_with(objects: Mapping[str, object] | None = None, **settings: object) -> PluginHost:
    """The plugin, enabled with these settings, and other plugins by their names."""
    entry = EntryPoint("otel", "framework_otel.plugin:Otel", GROUP)
    chosen = AppSettings(plugins=PluginsSettings(settings={"otel": {"enabled": True, **settings}}))
    return PluginHost(chosen.plugins, chosen, objects=objects, discover=lambda: [entry])


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def hex_of(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return format(span.context.trace_id, "032x"), format(span.context.span_id, "016x")
