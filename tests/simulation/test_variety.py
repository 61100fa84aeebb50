"""The seldom ways of consuming: all are drawn, none changes other plans, and what each promises is looked at.

Of each way one promise is broken in the program itself, and some truth must notice within a few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest

from framework.core import order_batch
from framework.core.order_batch import BatchEnds
from framework.core.results import explicit
from framework.services import batch_calls, deliver, order_ends
from framework.testing.simulation import Plan, draw, play
from framework.testing.streams import Stream
from framework.testing.variety import WAYS, vary
from framework.testing.workload import draw_workload

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
SECONDS, MOST = 30.0, 12


def test_every_way_is_gone_and_some_runs_go_none() -> None:
    plans = [draw(seed) for seed in range(300)]
    ways = [way for plan in plans for way in plan.workload.ways]

    assert set(WAYS) == set(ways)
    assert all(ways.count(way) >= 5 for way in WAYS)
    assert 100 <= sum(not plan.workload.ways for plan in plans) <= 200


def test_two_ways_together_can_be_declared() -> None:
    """Commits by hand, drawn behind batches in order, may take the batch away, and then nothing lingers."""
    loads = [load for seed in range(1_000) for load in draw(seed).workload.groups]

    assert [] == [load for load in loads if load.linger != "0s" and not load.batch]


def test_a_run_that_goes_none_is_what_it_was_drawn() -> None:
    seed = next(seed for seed in range(20) if not draw(seed).workload.ways)
    drawn = draw_workload(Stream(f"{seed}/load"), is_calm=False)

    assert vary(drawn, lambda way: Stream(f"{seed}/variety/{way}"), is_calm=False, kinds=()) is drawn
    assert draw(seed).workload == draw(seed).workload


def plans_with(way: str, fits: Callable[[Plan], bool]) -> Iterator[Plan]:
    drawn = (draw(seed, seconds=SECONDS) for seed in count())
    return (plan for plan in drawn if way in plan.workload.ways and fits(plan))


def broken_truths(way: str, fits: Callable[[Plan], bool] = lambda plan: True) -> set[str]:
    """Of the first plan that shows anything; empty where none does."""
    for plan in islice(plans_with(way, fits), MOST):
        verdict, _ = play(plan)
        if not verdict.is_ok:
            return {violation.truth for violation in verdict.violations}
    return set()


def all_well(answer: object, count: int) -> list[object]:
    return [None] * count


def nothing_is_success(value: object) -> object:
    return explicit(value) if value is not None else None


def no_stay(*arguments: object, **named: object) -> BatchEnds:
    ends = order_batch.decide_batch(*arguments, **named)  # type: ignore[arg-type]  # what it is given is passed on
    if ends.stay is not None:
        ends.done += 1
    return ends


def fails_now_and_then(plan: Plan) -> bool:
    return any(load.batch and load.fail_rate for load in plan.workload.groups)


def test_a_failed_message_of_a_batch_that_counts_as_handled_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_calls, "spread", all_well)
    assert {"a commit never passes a gap"} & broken_truths("batches", fails_now_and_then)


def test_nothing_returned_that_counts_as_success_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "explicit", nothing_is_success)
    assert {"a commit never passes a gap"} & broken_truths("explicit-ack")


def test_a_batch_that_goes_on_behind_its_failed_message_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_ends, "decide_batch", no_stay)
    assert {"order kept", "a commit never passes a gap"} & broken_truths("batches-in-order", fails_now_and_then)
