"""The ways of consuming: what each promises is looked at.

Of each way one promise is broken in the program itself, and some truth must notice within a few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest

from framework.client.first_commits import FirstCommits
from framework.core import batch
from framework.core.batch import BatchEnds
from framework.core.results import explicit
from framework.core.skipping import Skipping, SkipResult, SkipRules
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.by_config import ByConfig
from framework.hooks.builtin.allocation.machine_room import MachineRoom
from framework.model.pulled import Found
from framework.model.queue import MessageQueue
from framework.runtime.app import App
from framework.runtime.group import kind
from framework.services.call import batch_calls, deliver
from framework.services.offsets.local_offsets import LocalOffsets
from framework.services.orderly import ends
from tests.simulation import noticing
from tests.simulation.cluster import Cluster
from tests.simulation.plans.plan import Plan, draw
from tests.simulation.plans.ways import ways_of
from tests.simulation.simulation import play

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
SECONDS = 30.0


def test_two_ways_together_can_be_declared() -> None:
    """An application with these settings and handlers starts; what a run draws is never refused."""
    for seed in range(60):
        plan = draw(seed)
        cluster = Cluster(seed, apps=plan.apps, brokers=plan.brokers, workload=plan.workload)
        assert cluster.consumers()
        assert {load.name for load in plan.workload.groups} == set(cluster.settings.consumers)


def test_ways_that_undo_each_other_are_not_drawn_together() -> None:
    for seed in range(500):
        workload = draw(seed).workload
        gone = {way for load in workload.groups for way in ways_of(workload, load)}
        assert set(workload.ways) <= gone, f"seed {seed}"


def plans_with(way: str, fits: Callable[[Plan], bool]) -> Iterator[Plan]:
    drawn = (draw(seed, seconds=SECONDS) for seed in count())
    return (plan for plan in drawn if way in plan.workload.ways and fits(plan))


def broken_truths(way: str, fits: Callable[[Plan], bool] = lambda plan: True) -> set[str]:
    """Of the first plan that shows anything; empty where none does."""
    for plan in islice(plans_with(way, fits), noticing.MOST):
        verdict, _ = play(plan)
        if not verdict.is_ok:
            return {violation.truth for violation in verdict.violations}
    return set()


def all_well(answer: object, count: int) -> list[object]:
    return [None] * count


def nothing_is_success(value: object) -> object:
    return explicit(value) if value is not None else None


def no_stay(*arguments: object, **named: object) -> BatchEnds:
    ends = batch.decide_batch(*arguments, **named)  # type: ignore[arg-type]  # what it is given is passed on
    if ends.stay is not None:
        ends.done += 1
    return ends


def fails_now_and_then(plan: Plan) -> bool:
    return any(load.batch and load.fail_rate for load in plan.workload.groups)


def test_a_failed_message_of_a_batch_that_counts_as_handled_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_calls, "spread", all_well)
    assert {"a commit never passes a gap"} & broken_truths("batches-list", fails_now_and_then)


def test_nothing_returned_that_counts_as_success_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "explicit", nothing_is_success)
    assert {"a commit never passes a gap", "a snapshot tells"} & broken_truths("explicit-ack")


def test_a_batch_that_goes_on_behind_its_failed_message_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "decide_batch", no_stay)
    assert {"order kept", "a commit never passes a gap"} & broken_truths("batches-in-order", fails_now_and_then)


# -- queues by name, topics that are left, messages that nobody wants, everything for everybody


def test_offsets_of_a_broadcasting_group_that_are_told_a_broker_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "WithoutOffsets", lambda pulls: pulls)
    monkeypatch.setattr(FirstCommits, "is_kept", lambda *_: True)  # as where the group was no broadcasting one before
    assert {"everybody is told"} & broken_truths("broadcasting")


def test_a_file_that_is_ahead_of_the_handlers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ahead(offsets: LocalOffsets, queue: MessageQueue, offset: int) -> None:
        offsets._offsets[queue] = offset + 1
        offsets._noted += 1

    monkeypatch.setattr(LocalOffsets, "_note", ahead)
    assert {"saved offsets hold"} & broken_truths("broadcasting")


def test_a_message_more_than_the_rules_name_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Skipping.cut

    def greedy(skipping: Skipping, found: Found, begin: int, now_ms: int) -> SkipResult | None:
        rules = skipping.rules
        backlog = None if rules.backlog_over is None else max(rules.backlog_over - 1, 0)
        older_ms = None if rules.older_than_ms is None else rules.older_than_ms // 2
        skipping.rules = SkipRules(older_ms, backlog)
        try:
            return cut(skipping, found, begin, now_ms)
        finally:
            skipping.rules = rules

    monkeypatch.setattr(Skipping, "cut", greedy)
    assert {"skips by rule"} & broken_truths("skip-backlog")


def test_rules_that_skip_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Skipping, "cut", lambda *_: None)
    assert {"skips by rule"} & broken_truths("skip-backlog")


def test_a_queue_of_nobodys_that_is_taken_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ByConfig, "allocate", Averaging().allocate)
    assert {"only who is named"} & broken_truths("by-config")


def test_a_queue_of_nobodys_of_which_nobody_hears_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ByConfig, "remarks", lambda *_: [])
    assert {"only who is named"} & broken_truths("by-config")


def test_a_queue_of_another_room_that_is_taken_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MachineRoom, "allocate", Averaging().allocate)
    assert {"only who is named"} & broken_truths("machine-room")


def test_a_topic_that_is_consumed_though_it_was_left_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "unsubscribe", lambda app, group, topic: None)
    assert {"a topic that is left rests"} & broken_truths("second-topic")
