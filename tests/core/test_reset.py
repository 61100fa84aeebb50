"""QueueFlow.reset: somebody asked to go on from elsewhere."""

from __future__ import annotations

import pytest

from framework.core.budget import Budget
from framework.core.queue_flow import Pull, QueueFlow, QueueState
from framework.core.window import FlowLimits
from framework.model.pulled import Failed, Found
from framework.model.queue import MessageQueue
from tests.core.making import messages_at

QUEUE = MessageQueue("orders", "broker-a", 3)


def flowing(budget: Budget | None = None) -> QueueFlow:
    """At 100, with ten messages pulled."""
    flow = QueueFlow(QUEUE, budget or Budget(1 << 20), FlowLimits())
    flow.positioned(100)
    flow.pulled(Found(messages_at(range(100, 110)), 1_000, 110, 0, 500), 0)
    return flow


@pytest.mark.parametrize("offset", [0, 40, 105, 400])
def test_the_next_pull_is_from_there_and_what_was_pulled_is_dropped(offset: int) -> None:
    budget = Budget(1 << 20)
    flow = flowing(budget)
    before = flow.window

    flow.reset(offset)
    step = flow.next_step(0)
    assert isinstance(step, Pull)
    assert (offset, offset) == (step.offset, flow.window.committable)
    assert before.is_closed
    assert (0, 0) == (budget.used, flow.window.messages)


def test_a_late_end_changes_nothing() -> None:
    flow = flowing()
    (chunk,) = flow.window.chunks
    late = flow.window

    flow.reset(5)
    for index in range(chunk.count):
        chunk.finish(index)
    late.settle()
    assert 5 == flow.window.committable
    assert chunk.next >= chunk.count, "nobody starts what was not started"


def test_a_queue_that_had_no_position_yet_gets_this_one() -> None:
    flow = QueueFlow(QUEUE, Budget(1 << 20), FlowLimits())

    flow.reset(7)
    assert QueueState.FLOWING is flow.state
    assert 7 == flow.next_offset


def test_a_failing_queue_need_not_stand_back_any_longer() -> None:
    flow = flowing()
    flow.pulled(Failed("no answer"), 0)

    flow.reset(200)
    assert isinstance(flow.next_step(0), Pull)
    assert flow.failure is None


def test_a_queue_that_is_being_given_back_cannot_be_reset() -> None:
    flow = flowing()
    assert flow.can_reset
    flow.revoke()

    assert not flow.can_reset
