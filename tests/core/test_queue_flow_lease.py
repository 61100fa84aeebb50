"""QueueFlow under a lease: nothing is asked or pulled without it, and a new one begins at what is stored."""

from __future__ import annotations

from framework.core.budget import Budget
from framework.core.queue_flow import POSITION, RETIRE, QueueFlow, QueueState, Wait
from framework.core.window import FlowLimits
from tests.core.making import PLENTY, QUEUE
from tests.core.test_queue_flow import found, plain


def claimed(budget: Budget | None = None) -> QueueFlow:
    return QueueFlow(QUEUE, budget or Budget(PLENTY), FlowLimits(), needs_lease=True)


def under_lease(offset: int, budget: Budget | None = None) -> QueueFlow:
    flow = claimed(budget)
    flow.lease_granted()
    flow.positioned(offset)
    return flow


def test_without_a_lease_nothing_is_asked() -> None:
    flow = claimed()

    assert Wait("lease") == flow.next_step(0)
    flow.lease_granted()
    assert POSITION is flow.next_step(0)


def test_a_lost_lease_forgets_everything_and_a_new_one_asks_where_to_begin() -> None:
    budget = Budget(PLENTY)
    flow = under_lease(0, budget)
    chunk = flow.pulled(found(0, 1, 2), 0)
    assert chunk is not None
    chunk.next = 1
    window = flow.window

    flow.lease_lost()
    assert Wait("lease") == flow.next_step(0)
    assert (True, 0, False) == (window.is_closed, budget.used, not flow.window.is_closed)
    assert chunk.next == chunk.count, "nobody may start what is left"
    chunk.finish(0)
    assert 0 == window.settle(), "what ends now changes nothing"

    flow.lease_granted()
    assert POSITION is flow.next_step(0)
    flow.positioned(2)
    assert ("pull", 2, 2) == plain(flow, 0)


def test_a_failure_is_forgotten_with_the_lease() -> None:
    flow = claimed()
    flow.lease_granted()
    flow.position_refused("no answer", 0)
    flow.lease_lost()

    flow.lease_granted()
    assert POSITION is flow.next_step(0)


def test_a_queue_that_is_retiring_stays_so_when_its_lease_is_lost() -> None:
    flow = under_lease(0)
    chunk = flow.pulled(found(0, 1), 0)
    assert chunk is not None
    chunk.next = 1
    flow.revoke()

    flow.lease_lost()
    assert RETIRE is flow.next_step(0)
    assert flow.window.is_closed
    chunk.finish(0)
    assert 0 == flow.window.settle(), "whoever holds the lock now handles it again"
    flow.released()
    assert QueueState.RELEASED is flow.state


def test_what_had_ended_is_remembered_until_there_is_a_position_again() -> None:
    flow = under_lease(0)
    chunk = flow.pulled(found(0, 1, 2), 0)
    assert chunk is not None
    chunk.next = 2
    chunk.finish(0)

    before = flow.reached
    flow.lease_lost()
    assert (None, 1) == (before, flow.reached)
    chunk.finish(1)
    flow.lease_granted()
    flow.lease_lost()
    assert 1 == flow.reached, "what ends now changes nothing, nor does a lease in which nothing began"
    flow.lease_granted()
    flow.positioned(1)
    assert flow.reached is None


def test_a_queue_that_is_left_says_how_far_it_came() -> None:
    flow = under_lease(5)
    flow.revoke()
    flow.released()

    assert 5 == flow.reached


def test_a_reset_forgets_how_far_it_came() -> None:
    flow = under_lease(5)
    flow.lease_lost()
    flow.lease_granted()
    flow.reset(0)

    assert flow.reached is None
