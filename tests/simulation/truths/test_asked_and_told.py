"""The checkers of tags and of listeners: silent about a good history, and exact about what is wrong with a bad one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.core.budget import Bucket
from framework.model.queue import MessageQueue
from framework.services.offsets.commit import CommitLoop
from tests.simulation.checkers import (
    commit_never_passes_a_gap,
    listeners_are_told,
    nothing_lost,
    only_what_was_asked,
    within_rate,
)
from tests.simulation.facts import Committed, Fact, Finished, Life, Reassigned, Remade, Sent, Started, Subscribed
from tests.simulation.faults.kinds import kind_named
from tests.simulation.history import History
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play
from tests.simulation.ways import tags
from tests.simulation.ways.facts import ToldChunk, ToldGains, ToldOffsets

A, QUEUE = "app-1.1", MessageQueue("orders", "broker-a", 0)
NAME = str(QUEUE)


def history(*facts: Fact, is_calm: bool = True) -> History:
    return History(0, facts=list(facts), groups=["billing"], is_calm=is_calm, is_heard=True, plain={"billing"})


# -- tags


def test_what_has_none_of_the_tags_is_not_to_be_handled_and_commits_pass_it() -> None:
    sent = [Sent(1.0, "producer.1", f"m{offset}", QUEUE, offset) for offset in range(2)]
    done = Finished(2.0, A, "billing", "m1", QUEUE, 1, 1, "ok")
    told = history(*sent, done, Committed(3.0, "broker.1", A, "billing", QUEUE, 2))
    told.is_drained = True
    assert 1 == len(list(nothing_lost(told)))
    assert 1 == len(list(commit_never_passes_a_gap(told)))

    told.unwanted, told.passed_by = {"billing": {"m0"}}, {("billing", NAME): {0}}
    assert [] == [*nothing_lost(told), *commit_never_passes_a_gap(told), *only_what_was_asked(told)]


def test_a_handler_that_is_given_it_all_the_same_is_named() -> None:
    told = history(Started(1.0, A, "billing", "m0", QUEUE, 0, 1))
    assert [] == list(only_what_was_asked(told))
    told.unwanted = {"billing": {"m0"}}
    (said,) = only_what_was_asked(told)
    assert "started orders@broker-a:0 0 for billing, which has none of its tags" in said.fact


# -- listeners

MOVED = Reassigned(1.0, A, "billing", (NAME,), ())
HEARD = ToldGains(1.0, A, "billing", (NAME,), ())
COMMIT = Committed(2.0, "broker.1", A, "billing", QUEUE, 5)
LEFT = Life(9.0, A, "left")


def broken(*facts: Fact, is_calm: bool = True) -> list[str]:
    return [each.fact for each in listeners_are_told(history(*facts, is_calm=is_calm))]


def test_each_change_of_queues_is_told_once() -> None:
    assert [] == broken(MOVED, HEARD)
    assert "was not told that billing gained" in broken(MOVED)[0]
    assert "was told too often that billing gained" in broken(MOVED, HEARD, HEARD)[0]


def test_a_topic_that_is_left_is_told_and_not_logged() -> None:
    gone = ToldGains(3.0, A, "billing", (), (NAME,))
    assert 1 == len(broken(gone))
    assert [] == broken(gone, Subscribed(3.0, A, "billing", "orders", is_on=False))
    assert 1 == len(broken(Subscribed(2.0, A, "billing", "orders", is_on=False), gone))


def test_offsets_are_told_once_and_the_last_one_is_among_them() -> None:
    def told(offset: int) -> ToldOffsets:
        return ToldOffsets(3.0, A, "billing", {NAME: offset})

    assert [] == broken(COMMIT, told(5), LEFT)
    assert "was not told that billing has committed 5" in broken(COMMIT, told(4), LEFT)[0]
    assert "has committed 4 of orders@broker-a:0, after 5" in broken(COMMIT, told(5), told(4))[0]
    assert 1 == len(broken(told(5), told(5)))
    assert [] == broken(COMMIT, LEFT, is_calm=False)


def test_offsets_of_a_topic_that_was_made_anew_begin_anew_and_are_told_once() -> None:
    """What its former life's last commit was may be told when its queue has begun from the front."""

    def told(offset: int, at: float) -> ToldOffsets:
        return ToldOffsets(at, A, "billing", {NAME: offset})

    remade = Remade(2.0, "tester.1", "orders")
    assert [] == broken(remade, told(3, 4.0), told(1, 10.0))
    assert 1 == len(broken(remade, told(3, 4.0), told(1, 10.0), told(1, 11.0)))
    assert [] == broken(remade, told(1, 4.0), told(1, 10.0)), "both lives may have the same number"
    assert 1 == len(broken(remade, told(1, 4.0), told(1, 10.0), told(1, 11.0)))
    assert 1 == len(broken(remade, told(3, 4.0), told(1, 40.0)))
    assert 1 == len(broken(Remade(2.0, "tester.1", "letters"), told(3, 4.0), told(1, 10.0)))


def test_as_many_are_reported_as_ended_well() -> None:
    ends = [Finished(1.0, A, "billing", f"m{offset}", QUEUE, offset, 1, "ok") for offset in range(3)]
    chunks = [ToldChunk(1.0, A, "billing", NAME, count) for count in (1, 2)]
    assert [] == broken(*ends, *chunks)
    assert ["app-1.1 was told of 1 messages of billing, and 3 ended well"] == broken(*ends, chunks[0])


@pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
def test_a_run_notices_that_a_listener_is_told_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommitLoop, "_pass_on", lambda loop: None)
    verdict, _ = play(draw(4, seconds=10.0, ways=["listening"]))
    assert {"listeners are told"} == {violation.truth for violation in verdict.violations}


@pytest.mark.timeout(600)
def test_a_run_notices_that_a_tag_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the broker nor the member itself leaves anything out."""
    monkeypatch.setattr(tags, "filters", lambda load: {})
    verdict, _ = play(draw(4, seconds=10.0, ways=["tags"]))
    assert {"only what was asked"} == {violation.truth for violation in verdict.violations}


# -- rates


def test_more_starts_than_a_rate_allows_are_named() -> None:
    def told(count: int, rate: int) -> list[str]:
        starts = [Started(1.0 + at / 100, A, "billing", f"m{at}", QUEUE, at, 1) for at in range(count)]
        history_ = history(*starts)
        history_.rates = {"billing": rate}
        return [each.fact for each in within_rate(history_)]

    assert [] == told(30, 10)
    assert ["app-1.1 started 33 messages of billing within 2 s, and 10 a second may"] == told(40, 10)
    assert [] == told(40, 20)


@pytest.mark.timeout(600)
def test_a_run_notices_that_a_rate_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bucket, "take", lambda bucket, count, now_ms: None)
    plan = draw(2, seconds=20.0, ways=["rate"], kinds=[kind_named("outage")])
    verdict, _ = play(replace(plan, workload=replace(plan.workload, burst=240, messages=240)))
    assert "within its rate" in {violation.truth for violation in verdict.violations}
