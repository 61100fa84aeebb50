"""`sample`: which traces begin here, and that what carries a context goes by that."""

from __future__ import annotations

import pytest
from framework_otel.settings import OtelSettings

from framework import Message, consumer, publishes
from framework.testing import Harness
from tests.tracing import SAMPLED, TRACE, Tracing, host_with

MANY = 800
"""What is expected of a share of so many lies within six standard deviations."""


@pytest.mark.parametrize(("sample", "least", "most"), [(0.1, 29, 131), (0.25, 127, 273), (1.0, MANY, MANY)])
@pytest.mark.parametrize("plain", [False, True])
def test_of_traces_that_begin_here_a_share_has_spans_and_what_carries_a_context_goes_by_that(
    tracing: Tracing, sample: float, least: int, most: int, plain: bool
) -> None:
    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    @consumer("orders", "billing")
    def bill_on_a_thread(message: Message) -> None: ...

    with Harness(bill_on_a_thread if plain else bill, plugins=host_with(sample=sample)) as desk:
        for _ in range(MANY):
            desk.send("orders", b"x")
        desk.settle()
        found = len(tracing.spans("process orders"))
        assert least <= found <= most
        for number in range(10):
            desk.send("orders", b"x", properties={"traceparent": SAMPLED} if number % 2 else {"key": "without"})
        desk.settle()

    spans = tracing.spans("process orders")
    assert found + 5 <= len(spans) <= found + 10
    assert 5 == sum(f"{span.context.trace_id:032x}" == TRACE for span in spans if span.context)


def test_of_sends_that_begin_a_trace_the_same_share_has_spans(tracing: Tracing) -> None:
    @consumer("orders", "billing")
    @publishes("shipments")
    async def bill(message: Message) -> bytes:
        return b"on its way"

    with Harness(bill, plugins=host_with(sample=0.1)) as desk:
        for _ in range(MANY):
            desk.send("orders", b"x")
        desk.settle()

    attempts, sends = tracing.spans("process orders"), tracing.spans("send shipments")
    assert 29 <= len(attempts) <= 131
    of_attempts = {span.context.trace_id for span in attempts if span.context}
    assert of_attempts <= {span.context.trace_id for span in sends if span.context}, "what is traced is traced on"
    assert 80 <= len(sends) <= 224, "those within a trace, and a tenth of the others"


@pytest.mark.parametrize("sample", [0.000_001, 5e-324])
def test_the_first_that_begins_here_always_has_one_and_a_tiny_share_no_other(tracing: Tracing, sample: float) -> None:
    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    with Harness(bill, plugins=host_with(sample=sample)) as desk:
        for _ in range(50):
            desk.send("orders", b"x")
        desk.settle()

    assert 1 == len(tracing.spans("process orders"))


@pytest.mark.parametrize("sample", [0, -1, 1.5, "many"])
def test_a_share_that_is_none_is_refused(sample: object) -> None:
    with pytest.raises(ValueError, match="sample"):
        OtelSettings.model_validate({"sample": sample})
