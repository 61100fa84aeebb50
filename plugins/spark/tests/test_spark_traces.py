"""Traces and Spark: a batch's span has links to its messages, by the hooks or by `micro_batch` of the plugin `otel`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from framework_otel import micro_batch
from framework_spark.frames import table_of
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from framework import Message, consumer
from framework.testing import Harness
from tests.docs.blocks import DOCS, write_files
from tests.reading.tables import Tables
from tests.tracing import Tracing, attributes, host_with

SENDERS = [(f"{number:032x}", f"{number:016x}") for number in range(1, 6)]


def contexts(flags: str = "01") -> list[dict[str, str]]:
    return [{"traceparent": f"00-{trace_id}-{span_id}-{flags}"} for trace_id, span_id in SENDERS]


def linked(span: ReadableSpan) -> set[tuple[str, str]]:
    return {(format(each.context.trace_id, "032x"), format(each.context.span_id, "016x")) for each in span.links}


def frame_of(spark: Any, properties: list[dict[str, str]]) -> Any:
    return spark.createDataFrame(table_of([Message("clicks", b"1", properties=each) for each in properties]))


def test_a_batch_of_mode_driver_has_one_span_with_a_link_for_each_message(tracing: Tracing) -> None:
    from framework_spark.runner import SparkRunner

    from framework.hooks import hookimpl

    class Plugin:
        @hookimpl
        def register_runners(self) -> dict[str, SparkRunner]:
            return {"spark": SparkRunner(Tables())}

    @consumer("clicks", group="revenue", engine="spark", batch=10, linger="1s")
    def revenue(clicks: Any) -> None:
        assert clicks.num_rows

    with Harness(revenue, plugins=host_with({"spark": Plugin()})) as harness:
        for each in contexts():
            harness.send(Message("clicks", b"1", properties=each))
        harness.settle()

    spans = tracing.spans("process clicks")
    assert len(spans) < len(SENDERS)
    assert set(SENDERS) == set().union(*map(linked, spans))


def test_a_micro_batch_is_a_span_with_links_to_the_senders_spans_that_are_kept(tracing: Tracing, spark: Any) -> None:
    frame = frame_of(spark, [*contexts()[:3], *contexts()[:3], *contexts("00")[3:], {}, {"traceparent": "x-01"}])

    with micro_batch(frame, "clicks", "revenue") as span:
        assert span is trace.get_current_span()
        assert 10 == frame.count()
    with micro_batch(frame, "clicks", links=1):
        """Most of it is not told."""

    whole, cut = tracing.spans("process clicks")
    assert set(SENDERS[:3]) == linked(whole)
    assert 3 == len(whole.links), "each once"
    assert 1 == len(cut.links)
    assert {
        "messaging.system": "rocketmq", "messaging.destination.name": "clicks",
        "messaging.consumer.group.name": "revenue", "messaging.operation.name": "process",
    }.items() <= attributes(whole).items()  # fmt: skip


@pytest.mark.parametrize(("exceptions", "words"), [(True, "ValueError: no price"), (False, "ValueError")])
def test_what_the_function_raises_is_in_its_span_and_raised(
    tracing: Tracing, spark: Any, words: str, *, exceptions: bool
) -> None:
    with (
        pytest.raises(ValueError, match="no price"),
        micro_batch(frame_of(spark, [{}]), "clicks", exceptions=exceptions),
    ):
        raise ValueError("no price")

    (span,) = tracing.spans("process clicks")
    assert (StatusCode.ERROR, words) == (span.status.status_code, span.status.description)
    assert exceptions == bool(span.events)


def test_the_page_s_function_makes_a_span(
    tracing: Tracing, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(DOCS / "howto" / "traces.md", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "clicks", raising=False)  # another page's

    importlib.import_module("clicks").totals(frame_of(spark, contexts()), 0)

    (span,) = tracing.spans("process clicks")
    assert set(SENDERS) == linked(span)


class Columns:
    """A frame that nothing may be read from."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns


def test_a_batch_that_is_not_sampled_starts_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    Tracing(monkeypatch, ALWAYS_OFF)

    with micro_batch(Columns("body", "properties"), "clicks") as span:
        assert not span.is_recording()


def test_a_frame_without_properties_is_refused_by_what_it_has() -> None:
    with (
        pytest.raises(ValueError, match="'properties'; it has topic, body"),
        micro_batch(Columns("topic", "body"), "x"),
    ):
        pytest.fail("it began")
