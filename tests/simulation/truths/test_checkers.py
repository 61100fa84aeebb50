"""Checkers: each says nothing about a good history, and names what is wrong with a bad one."""

from __future__ import annotations

import pytest

from framework.model.queue import MessageQueue
from tests.simulation.checkers import (
    acknowledged_is_stored,
    calm_runs_do_not_repeat,
    commit_never_passes_a_gap,
    each_queue_has_one_owner,
    nothing_lost,
    nothing_unexpected,
    offsets_forward,
    one_answer_a_request,
    one_copy_an_attempt,
    retries_bounded,
)
from tests.simulation.facts import (
    Acquired,
    ByHand,
    Committed,
    Copied,
    Fact,
    Finished,
    Life,
    Remade,
    Reset,
    Said,
    Sent,
    Started,
    Strange,
    Unexpected,
)
from tests.simulation.history import History, Ownership

QUEUE = MessageQueue("orders", "broker-a", 0)


def history(*facts: Fact) -> History:
    return History(0, facts=list(facts), groups=["billing"], is_drained=True, max_retries=2)


def sent(offset: int, at: float = 0.0) -> Sent:
    return Sent(at, "producer.1", f"m{offset}", QUEUE, offset)


def started(offset: int, who: str = "a.1", *, attempt: int = 1, at: float = 1.0) -> Started:
    return Started(at, who, "billing", f"m{offset}", QUEUE, offset, attempt)


def finished(offset: int, outcome: str = "ok", who: str = "a.1", *, attempt: int = 1, at: float = 1.0) -> Finished:
    return Finished(at, who, "billing", f"m{offset}", QUEUE, offset, attempt, outcome)


def committed(offset: int, by: str = "a.1", at: float = 2.0) -> Committed:
    return Committed(at, "broker.1", by, "billing", QUEUE, offset)


def test_nothing_lost() -> None:
    assert [] == list(nothing_lost(history(sent(0), finished(0))))

    dead = history(sent(0))
    dead.dead_letters = {("billing", "m0")}
    assert [] == list(nothing_lost(dead))

    (lost,) = nothing_lost(history(sent(0), sent(1), finished(0), finished(1, "failed")))
    assert "billing never finished m1" in lost.fact

    unfinished = history(sent(0))
    unfinished.is_drained = False
    assert [] == list(nothing_lost(unfinished))


def test_a_commit_never_passes_a_gap() -> None:
    assert [] == list(commit_never_passes_a_gap(history(finished(1), finished(0), committed(2))))

    (gap,) = commit_never_passes_a_gap(history(finished(0), finished(2), committed(3)))
    assert "committed 3" in gap.fact
    assert "1 is not finished" in gap.fact

    (early,) = commit_never_passes_a_gap(history(committed(1), finished(0)))
    assert "0 is not finished" in early.fact


def test_a_failed_message_counts_once_its_copy_is_there() -> None:
    copy = Copied(1.5, "broker.1", "billing", "m0")
    assert [] == list(commit_never_passes_a_gap(history(finished(0, "failed"), copy, committed(1))))
    assert 1 == len(list(commit_never_passes_a_gap(history(finished(0, "failed"), committed(1), copy))))


def test_by_hand_nothing_is_finished_before_it_is_said() -> None:
    def said(*facts: Fact) -> list[str]:
        told = history(*facts)
        told.by_hand = {"billing"}
        return [violation.fact for violation in commit_never_passes_a_gap(told)]

    handled = (finished(0), finished(1))
    done, back = (ByHand(1.5, "a.1", "billing", QUEUE, 1, is_commit) for is_commit in (True, False))

    assert [] == said(*handled, done, committed(2))
    assert 1 == len(said(*handled, committed(2), done))
    assert 1 == len(said(*handled, back, done, committed(2)))
    assert 1 == len(said(*handled, Acquired(1.2, "a.1", "billing", str(QUEUE), 0), done, committed(2)))


def test_offsets_forward() -> None:
    assert [] == list(offsets_forward(history(committed(1), committed(1), committed(3))))

    (fall,) = offsets_forward(history(committed(3), committed(2)))
    assert "committed 2" in fall.fact
    assert "after 3" in fall.fact


def test_offsets_may_fall_with_a_new_acquisition_or_another_owner() -> None:
    anew = Acquired(2.5, "a.1", "billing", str(QUEUE), 1)
    assert [] == list(offsets_forward(history(committed(3), anew, committed(2))))
    assert [] == list(offsets_forward(history(committed(3), committed(2, by="b.1"))))
    assert 1 == len(list(offsets_forward(history(committed(3), anew, committed(0)))))


def test_one_answer_a_request() -> None:
    (strange,) = one_answer_a_request(history(Strange(1.0, "broker.1", "an answer to request 7")))
    assert "broker.1 sent an answer to request 7" == strange.fact


def test_nothing_unexpected() -> None:
    (broken,) = nothing_unexpected(history(Unexpected(1.0, "a.1", "loop failed")))
    assert "a.1: loop failed" == broken.fact


def test_in_a_calm_run_nobody_closes_anothers_connection() -> None:
    def ended(reason: str, *, is_calm: bool = True) -> list[str]:
        told = history(Said(1.0, "a.1", "info", "disconnected", {"peer": "b:9876", "reason": reason}))
        told.is_calm = is_calm
        return [violation.fact for violation in nothing_unexpected(told)]

    assert [] == ended("closed by this process")
    assert ["a.1 was disconnected from b:9876: closed by the peer"] == ended("closed by the peer")
    assert [] == ended("closed by the peer", is_calm=False)


def test_retries_bounded() -> None:
    good = history(*(finished(0, "failed", attempt=attempt) for attempt in (1, 2, 3)))
    good.dead_letters = {("billing", "m0")}
    assert [] == list(retries_bounded(good))

    (over,) = retries_bounded(history(started(0, attempt=4)))
    assert "4th" in over.fact

    early = history(finished(0, "failed", attempt=1))
    early.dead_letters = {("billing", "m0")}
    (tries_left,) = retries_bounded(early)
    assert "tries left" in tries_left.fact


def test_one_copy_an_attempt() -> None:
    two = history()
    two.copies = [("billing", "x", 2, "broker-a"), ("billing", "x", 3, "broker-a"), ("billing", "x", 3, "broker-b")]
    assert [] == list(one_copy_an_attempt(two))

    two.copies.append(("billing", "x", 3, "broker-a"))
    (twice,) = one_copy_an_attempt(two)
    assert "2 copies of x for retry 3" in twice.fact

    retries = MessageQueue("%RETRY%billing", "broker-a", 0)
    for queue, offset, excused in ((QUEUE, 1, False), (retries, 9, False), (retries, 1, True)):
        fell = history(Committed(1.0, "broker", "app", "billing", queue, offset, before=5))
        fell.copies = two.copies
        assert excused is (not list(one_copy_an_attempt(fell))), "only where the group went back in that topic"


@pytest.mark.parametrize("failures", [1, 2])
def test_two_dead_letters_are_of_two_failed_deliveries(failures: int) -> None:
    twice = history(*[finished(0, "failed", attempt=4)] * failures)
    twice.max_retries, twice.copied_of = 3, {"x": "m0"}
    twice.copies = [("billing", "x", 5, "broker-a")] * 2

    assert (2 - failures) == len(list(one_copy_an_attempt(twice)))


def test_acknowledged_is_stored() -> None:
    there = history(sent(0), sent(1))
    there.stored = {QUEUE: {0: "m0", 1: "m1"}}
    assert [] == list(acknowledged_is_stored(there))

    there.stored = {QUEUE: {0: "m0", 1: "other"}}
    (changed,) = acknowledged_is_stored(there)
    assert "other is there" in changed.fact

    there.stored = {QUEUE: {0: "m0", 2: "m2"}}
    missing, hole = acknowledged_is_stored(there)
    assert "nothing is there" in missing.fact
    assert "none at offset 1" in hole.fact


def test_calm_runs_do_not_repeat() -> None:
    before = (finished(0, who="a.1"), Life(2.0, "a.1", "left"))
    again = (Acquired(3.0, "b.1", "billing", str(QUEUE), 0), started(0, "b.1", at=3.1))
    repeated = history(*before, *again)
    assert [] == list(calm_runs_do_not_repeat(repeated))

    repeated.is_calm = True
    (twice,) = calm_runs_do_not_repeat(repeated)
    assert "b.1 started m0 for billing again" in twice.fact


def test_what_was_sent_twice_is_a_repeat() -> None:
    """Two messages of one id, in two queues: in a calm run every answer reaches its producer."""
    other = MessageQueue("orders", "broker-a", 1)
    left = (finished(0, who="a.1"), Life(2.0, "a.1", "left"), Acquired(3.0, "b.1", "billing", str(other), 0))
    told = history(*left, Started(3.1, "b.1", "billing", "m0", other, 0, 1))
    told.is_calm = True
    (twice,) = calm_runs_do_not_repeat(told)
    assert "b.1 started m0 for billing again" in twice.fact


def test_a_joining_member_may_repeat_what_the_old_owner_is_at() -> None:
    overlap = history(
        Acquired(1.0, "b.1", "billing", str(QUEUE), 0), finished(0, who="a.1", at=1.1), started(0, "b.1", at=1.2)
    )
    overlap.is_calm = True
    assert [] == list(calm_runs_do_not_repeat(overlap))


def test_after_a_reset_offsets_may_fall_to_it_and_no_further() -> None:
    reset = Reset(2.0, "the world", "billing", QUEUE, 3)
    assert [] == list(offsets_forward(history(committed(9), reset, committed(3), committed(5))))
    assert 1 == len(list(offsets_forward(history(committed(9), reset, committed(2)))))
    assert 1 == len(list(offsets_forward(history(committed(9), committed(3)))))


def test_a_topic_made_anew_begins_at_nothing() -> None:
    """What was sent to its former life is out of question, what is sent later is not."""
    remade = Remade(3.0, "the world", "orders")
    gone = history(sent(0, at=1.0), finished(0), committed(1), remade)
    gone.excused_until = 5.0
    assert [] == list(nothing_lost(gone))

    late = History(0, facts=[*gone.facts, committed(9, at=6.0)], groups=["billing"], is_drained=True, excused_until=5.0)
    assert [] == list(commit_never_passes_a_gap(late)), "its owner has not been told"
    late.facts += [sent(8, at=7.0), sent(9, at=7.0)]
    assert ["m9"] == [violation.fact.split()[4] for violation in nothing_lost(late)]

    gone.facts.append(Acquired(5.5, "a.1", "billing", str(QUEUE), 0))
    gone.facts.append(sent(0, at=6.0))
    gone.facts.append(committed(1, at=6.5))
    assert 1 == len(list(commit_never_passes_a_gap(gone))), "finished in its former life is not finished"
    unfinished = history(remade, sent(0, at=6.0))
    unfinished.excused_until = 5.0
    assert 1 == len(list(nothing_lost(unfinished)))


def owned(*owners: tuple[str, ...], holder: str = "") -> History:
    """Two members, and whose the queues 0, 1 ... are."""
    at_rest = history()
    at_rest.members = ("a.1", "b.1")
    at_rest.owners = {("billing", f"orders@broker-a:{n}"): Ownership(who, holder) for n, who in enumerate(owners)}
    return at_rest


def test_each_queue_has_one_owner() -> None:
    assert [] == list(each_queue_has_one_owner(history())), "where nobody looked"
    assert [] == list(each_queue_has_one_owner(owned(("a.1",), ("b.1",), ("a.1",))))
    assert [] == list(each_queue_has_one_owner(owned(("a.1",), holder="a.1")))

    uneven = owned(("a.1",), ("a.1",))
    uneven.uneven = {"billing"}
    assert [] == list(each_queue_has_one_owner(uneven)), "where the strategy promises no balance"

    for broken, what in (
        (owned((), ("b.1",)), "orders@broker-a:0 of billing is owned by nobody among 2"),
        (owned(("a.1", "b.1"), ("b.1",), ("a.1",)), "owned by a.1 and b.1"),
        (owned(("a.1",), ("a.1",)), "billing is out of balance in orders: {'a.1': 2, 'b.1': 0}"),
        (owned(("a.1",), holder="b.1"), "a.1 owns orders@broker-a:0 of billing, and b.1 has its lock"),
    ):
        (violation,) = each_queue_has_one_owner(broken)
        assert what in str(violation)
