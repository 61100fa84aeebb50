"""Checkers of the seldom ways: broadcasting, skipping, queues by name, topics that are left, retries and their room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation import checkers as truths
from tests.simulation.facts import (
    Acquired,
    Committed,
    Copied,
    Fact,
    Fault,
    Finished,
    Life,
    Reassigned,
    RoomAgain,
    Said,
    Saved,
    Sent,
    SentBack,
    Skipped,
    Started,
    Subscribed,
    Swallowed,
)
from tests.simulation.history import History, Ownership
from tests.simulation.ways.facts import Published, Returned

QUEUE = MessageQueue("orders", "broker-a", 0)
HOME = str(QUEUE)


def history(*facts: Fact, **known: Any) -> History:
    return History(0, facts=list(facts), groups=["billing"], is_drained=True, max_retries=1, **known)


def broken(truth: Callable[[History], Iterable[Violation]], told: History) -> str:
    return "; ".join(violation.fact for violation in truth(told))


def sent(offset: int, at: float = 0.0) -> Sent:
    return Sent(at, "producer.1", f"m{offset}", QUEUE, offset)


def started(offset: int, at: float = 1.0, *, who: str = "app-1.1", queue: MessageQueue = QUEUE) -> Started:
    return Started(at, who, "billing", f"m{offset}", queue, offset, 1)


def finished(
    offset: int, at: float = 1.0, outcome: str = "ok", *, who: str = "app-1.1", attempt: int = 1
) -> Finished:  # fmt: skip
    return Finished(at, who, "billing", f"m{offset}", QUEUE, offset, attempt, outcome)


def acquired(offset: int, at: float = 1.0, *, who: str = "app-1.1", end: int | None = None) -> Acquired:
    return Acquired(at, who, "billing", HOME, offset, end=end)


def dropped(offset: int, at: float = 2.0, *, who: str = "app-1.1") -> Said:
    fields = {"group": "billing", "queue": HOME, "offset": offset, "message_id": f"m{offset}", "attempt": 2}
    return Said(at, who, "warning", "message dropped", fields)


# -- broadcasting


def broadcast(*facts: Fact, members: tuple[str, ...] = ("app-1.1", "app-2.1"), **known: Any) -> History:
    return history(*facts, broadcasting={"billing"}, members=members, **known)


def test_each_member_is_told_everything() -> None:
    both = (sent(0), finished(0), finished(0, who="app-2.1"))

    assert "" == broken(truths.everybody_is_told, broadcast(*both))
    assert "" == broken(truths.nothing_lost, broadcast(sent(0))), "it is the other truth's"
    assert "app-2 never finished m0" in broken(truths.everybody_is_told, broadcast(*both[:2]))
    assert "" == broken(truths.everybody_is_told, broadcast(*both, members=("app-1.2", "app-2.1"))), "a former life did"


def test_what_failed_is_dropped_after_its_last_try_and_nobody_has_a_copy() -> None:
    tries = (sent(0), finished(0, 1.0, "failed"), finished(0, 1.5, "failed", attempt=2))

    assert "" == broken(truths.everybody_is_told, broadcast(*tries, dropped(0), members=("app-1.1",)))
    assert "had tries left" in broken(truths.everybody_is_told, broadcast(*tries[:2], dropped(0), members=("app-1.1",)))
    assert "never finished m0" in broken(truths.everybody_is_told, broadcast(*tries, members=("app-1.1",)))
    copied = broadcast(copies=[("billing", "m0", 2, "broker-a")])
    assert "a broker has a copy of m0" in broken(truths.everybody_is_told, copied)
    committed = Committed(1.0, "broker.1", "app-1.1", "billing", QUEUE, 1)
    assert "told a broker 1" in broken(truths.everybody_is_told, broadcast(committed, members=()))


def saved(offset: int, at: float = 2.0, *, who: str = "app-1.1") -> Saved:
    return Saved(at, who, "billing", {HOME: offset})


def test_a_file_never_passes_a_gap_and_the_next_life_begins_there() -> None:
    life = (acquired(0), finished(0), finished(1), saved(2))

    assert "" == broken(truths.saved_offsets_hold, broadcast(*life, acquired(2, who="app-1.2")))
    assert "began orders@broker-a:0 for billing at 0, and 2 was saved" in broken(
        truths.saved_offsets_hold, broadcast(*life, acquired(0, who="app-1.2"))
    )
    assert "" == broken(truths.saved_offsets_hold, broadcast(*life, acquired(0, who="app-2.1"))), "another machine"
    assert "0 is not finished" in broken(truths.saved_offsets_hold, broadcast(acquired(0), finished(1), saved(2)))
    assert "saved 1 of orders@broker-a:0 for billing after 2" in broken(
        truths.saved_offsets_hold, broadcast(*life, saved(1))
    )
    unsaved = (*life, finished(2), finished(3))
    assert "" == broken(truths.saved_offsets_hold, broadcast(*unsaved, acquired(4))), "the same process knows"
    assert "at 5, and 2 was saved" in broken(truths.saved_offsets_hold, broadcast(*unsaved, acquired(5)))
    assert "at 4, and 2 was saved" in broken(truths.saved_offsets_hold, broadcast(*unsaved, acquired(4, who="app-1.2")))
    gave_up = (finished(0, 1.0, "failed"), dropped(0), saved(1, 3.0))
    assert "" == broken(truths.saved_offsets_hold, broadcast(*gave_up))


def test_who_takes_a_queue_again_knows_what_its_disk_has_not_taken() -> None:
    life = (acquired(0), finished(0), finished(1))
    assert "" == broken(truths.saved_offsets_hold, broadcast(*life, acquired(2)))
    assert "at 2, and 0 was saved" in broken(truths.saved_offsets_hold, broadcast(*life, acquired(2, who="app-1.2")))
    assert "at 3, and 0 was saved" in broken(truths.saved_offsets_hold, broadcast(*life, acquired(3))), "a gap"


def test_each_member_of_a_broadcasting_group_has_every_queue() -> None:
    both = broadcast(owners={("billing", HOME): Ownership(("app-1.1", "app-2.1"))})
    assert "" == broken(truths.each_queue_has_one_owner, both)
    both.owners["billing", HOME] = Ownership(("app-1.1",))
    assert "owned by app-1.1 alone" in broken(truths.each_queue_has_one_owner, both)


def test_whoever_leaves_has_saved_what_it_had_finished() -> None:
    life, left = (acquired(0), finished(0), saved(1), finished(1)), Life(3.0, "app-1.1", "left")

    assert "1 of orders@broker-a:0 for billing, which it had finished, will come again" in broken(
        truths.saved_offsets_hold, broadcast(*life, left, is_calm=True)
    )
    assert "" == broken(truths.saved_offsets_hold, broadcast(*life, saved(2, 2.5), left, is_calm=True))
    assert "" == broken(truths.saved_offsets_hold, broadcast(*life, left)), "its disk may have been slow"
    behind = (finished(0), saved(1), finished(2), left)
    assert "" == broken(truths.saved_offsets_hold, broadcast(*behind, is_calm=True)), "1 waits for its next try"


# -- skipping


def skipped(begin: int, end: int, at: float = 10.0, *, queue: str = HOME, queue_end: int | None = None) -> Skipped:
    return Skipped(at, "app-1.1", "billing", queue, begin, end, queue_end=queue_end)


def test_only_what_is_old_is_skipped_and_nothing_old_is_started() -> None:
    def told(*facts: Fact) -> str:
        ages = {HOME: {0: 1.0, 1: 2.0, 2: 9.0}}
        return broken(truths.skips_by_rule, history(*facts, skips={"billing": (5.0, 0)}, stored_at=ages))

    assert "" == told(acquired(0, 9.5), skipped(0, 2), started(2, 10.0))
    assert "skipped 2 of orders@broker-a:0 for billing, 1.000s old" in told(skipped(0, 3))
    assert "started 1 of orders@broker-a:0 for billing, taken at 9.500s" in told(acquired(0, 9.5), started(1, 10.0))
    assert "" == told(acquired(0, 3.0), started(1, 10.0)), "it was young when it may have been pulled"
    assert "which is a retry" in told(skipped(0, 1, queue="%RETRY%billing@broker-a:0"))


def test_only_what_is_far_behind_is_skipped() -> None:
    def told(*facts: Fact) -> str:
        return broken(truths.skips_by_rule, history(*facts, skips={"billing": (0.0, 3)}))

    assert "" == told(acquired(0, end=10), skipped(0, 7, queue_end=10), started(7))
    assert "skipped 7 of" in told(skipped(0, 8, queue_end=10))
    assert "started 6 of orders@broker-a:0 for billing, taken at 1.000s, when 10 was the end" in told(
        acquired(0, end=10), started(6)
    )


def test_what_is_skipped_is_counted_and_counts_as_settled() -> None:
    rules = {"billing": (5.0, 0)}
    told = history(sent(0), skipped(0, 1), skips=rules, skipped={("app-1.1", "billing"): 1}, stored_at={HOME: {0: 0.0}})
    commit = Committed(11.0, "broker.1", "app-1.1", "billing", QUEUE, 1)
    told.facts.append(commit)

    assert "" == broken(truths.skips_by_rule, told)
    assert "" == broken(truths.nothing_lost, told)
    assert "" == broken(truths.commit_never_passes_a_gap, told)
    told.skipped["app-1.1", "billing"] = 3
    assert "counts 3 skipped of billing, and skipped 1" in broken(truths.skips_by_rule, told)
    assert "0 is not finished" in broken(truths.commit_never_passes_a_gap, history(commit))


# -- queues by name


def test_only_who_is_named_has_a_queue_and_what_is_nobodys_is_said() -> None:
    other = "orders@broker-a:1"
    known: dict[str, Any] = {
        "allotted": {"billing": {HOME: ("app-1",), other: ()}},
        "strict": {"billing"},
        "members": ("app-1.1",),
        "owners": {("billing", HOME): Ownership(("app-1.1",)), ("billing", other): Ownership(())},
    }
    fields = {"group": "billing", "remarks": [f"1 of 2 queues are named by nobody who is here: {other}"]}
    said = Said(1.0, "app-1.1", "warning", "allocation incomplete", fields)

    assert "" == broken(truths.only_who_is_named, history(said, acquired(0), started(0), **known))
    assert "" == broken(truths.each_queue_has_one_owner, history(said, **known, uneven={"billing"}))
    assert f"never said that {other} of billing is nobody's" in broken(truths.only_who_is_named, history(**known))
    taken = broken(truths.only_who_is_named, history(said, acquired(0, who="app-2.1"), **known))
    assert "app-2.1 took orders@broker-a:0 for billing, which is app-1's" in taken
    known["owners"] = {("billing", HOME): Ownership(("app-2.1",))}
    known["members"] = ("app-1.1", "app-2.1")
    assert "may be ('app-1',)'s" in broken(truths.each_queue_has_one_owner, history(said, **known, uneven={"billing"}))
    nobodys = Sent(0.0, "producer.1", "m9", MessageQueue("orders", "broker-a", 1), 9)
    assert "" == broken(truths.nothing_lost, history(nobodys, **known))


# -- topics that are left


def test_a_topic_that_is_left_is_not_consumed_until_it_is_subscribed_again() -> None:
    def told(*facts: Fact, **known: Any) -> str:
        return broken(truths.a_topic_that_is_left_rests, history(*facts, **known))

    off, on = (Subscribed(at, "app-1.1", "billing", "orders", is_on) for at, is_on in ((2.0, False), (5.0, True)))
    assert "" == told(started(0), off, on, started(1, 6.0))
    assert "which left the topic at 2.000s" in told(started(0), off, started(1, 3.0))
    assert "" == told(off, started(1, 3.0, who="app-2.1"))
    assert "" == told(off, started(1, 3.0, queue=MessageQueue("%RETRY%billing", "broker-a", 0)))
    assert "" == told(off, started(1, 3.0), threaded={"billing"}), "a thread may be a little late"
    again = (acquired(0), finished(0), off, on, acquired(0, 6.0), started(0, 7.0))
    assert "again, which it had finished itself" in told(*again, is_calm=True)
    assert "" == told(*again), "what was committed may be lost where not all is calm"
    assert "" == told(*again[:-2], acquired(0, 5.5, who="app-2.1"), *again[-2:], is_calm=True)


# -- retries and their room


def test_a_yes_that_keeps_nothing_is_no_copy() -> None:
    swallowed = Swallowed(1.0, "broker.1", "billing", "m0")

    assert "a broker that kept nothing" in broken(truths.no_silent_drop, history(swallowed))
    assert "" == broken(truths.no_silent_drop, history(swallowed, Copied(2.0, "broker.1", "billing", "m0")))
    assert "" == broken(truths.no_silent_drop, history(swallowed, finished(0, 2.0)))
    assert "" == broken(truths.no_silent_drop, history(swallowed, dead_letters={("billing", "m0")}))
    assert "a broker that kept nothing" in broken(truths.no_silent_drop, history(finished(0), swallowed))
    assert "" == broken(truths.no_silent_drop, history(swallowed, RoomAgain(1.1, "broker-a", "billing")))
    assert "a broker that kept nothing" in broken(
        truths.no_silent_drop,
        history(swallowed, RoomAgain(1.1, "broker-a", "billing"), Copied(2.0, "broker.1", "billing", "m0"),
                replace(swallowed, at=9.0)),
    )  # fmt: skip
    for late in (RoomAgain(5.0, "broker-a", "billing"), RoomAgain(1.1, "broker-a", "audit")):
        assert "a broker that kept nothing" in broken(truths.no_silent_drop, history(swallowed, late))


def test_what_a_broker_dropped_unseen_is_neither_lost_nor_a_gap() -> None:
    """The room was there again before the question behind its yes could be answered."""
    failed, swallowed = finished(0, 1.0, "failed"), Swallowed(1.0, "broker.1", "billing", "m0")
    committed = Committed(3.0, "broker.1", "app-1.1", "billing", QUEUE, 1, before=0)

    for truth, what in ((truths.nothing_lost, "never finished m0"), (truths.commit_never_passes_a_gap, "not finished")):
        soon, late = RoomAgain(1.1, "broker-a", "billing"), RoomAgain(4.5, "broker-a", "billing")
        assert "" == broken(truth, history(sent(0), failed, swallowed, soon, committed))
        assert what in broken(truth, history(sent(0), failed, swallowed, committed, late))
        assert what in broken(truth, history(sent(0), failed, swallowed, committed))


def test_a_retry_comes_no_later_than_its_delay() -> None:
    def told(at: float, *facts: Fact, **known: Any) -> str:
        asked = SentBack(1.0, "broker.1", "billing", "m0")
        fired = [("billing", "m0", 2, at)]
        return broken(truths.retries_come, history(asked, *facts, delays_ms=(100, 200, 300), fired=fired, **known))

    assert "" == told(1.3)
    assert "retry 1 of m0 for billing was due at 1.300s and came at 1.600s" in told(1.6)
    assert "" == told(1.6, sync_s=0.2), "a disk that takes its time"
    assert "" == told(1.6, sync_s=0.02, syncs_waited_for=30), "few rows a sync, and others before it"
    assert told(2.2, sync_s=0.02, syncs_waited_for=30), "and it is not for ever"
    assert "" == told(1.6, Fault(1.1, "broker", "broker-stop"))
    assert "" == told(1.6, SentBack(1.25, "broker.1", "billing", "m0")), "asked for once more"


def test_a_dead_letter_has_had_each_of_its_tries() -> None:
    last = finished(0, 2.0, "failed", attempt=2)
    told = history(finished(0, 1.0, "failed"), last, dead_letters={("billing", "m0")})
    assert "" == broken(truths.retries_bounded, told)
    told.facts.pop(0)
    assert "m0 is a dead letter of billing and had tries left: 1" == broken(truths.retries_bounded, told)
    told.orderly = {"billing": 1}
    assert "" == broken(truths.retries_bounded, told), "in order they are counted anew by each owner"


# -- taken over in time


def test_what_a_leaver_had_is_soon_somebody_elses() -> None:
    gained, other = Reassigned(1.0, "app-1.1", "billing", (HOME,), ()), Life(0.0, "app-2.1", "started")
    left, late = Life(6.0, "app-1.1", "left"), started(9, 9.0)

    def told(*facts: Fact, other: Fact = other, **known: Any) -> str:
        return broken(truths.covered_in_time, history(other, gained, *facts, late, is_calm=True, **known))

    taken = Reassigned(7.0, "app-2.1", "billing", (HOME,), ())
    assert "" == told(left, taken)
    assert "orders@broker-a:0 of billing was nobody's 2s after app-1.1 had left" == told(left)
    assert "" == told(Reassigned(4.0, "app-2.1", "billing", (HOME,), ()), left), "it was given before the end"
    assert "" == told(left, Life(7.0, "app-1.2", "started")), "somebody else came meanwhile"
    assert "" == told(left, other=Life(4.0, "app-2.1", "started")), "it has only just come"
    assert "" == told(left, other=Life(0.0, "producer.1", "started")), "nobody else is there"
    assert "" == told(left, grace_s=10.0), "its seat is kept"
    assert "" == told(Subscribed(4.0, "app-1.1", "billing", "orders", is_on=False), left)
    gone = Subscribed(0.5, "app-2.1", "billing", "orders", is_on=False)
    assert "" == told(gone, gained, left), "who is there does not consume the topic"
    assert "" != told(gone, replace(gone, at=0.6, is_on=True), gained, left)
    assert "" != told(replace(gone, topic="payments"), gained, left)


def test_an_offset_below_nothing_is_never_committed() -> None:
    negative = Committed(1.0, "broker.1", "app-1.1", "billing", QUEUE, -2)
    assert "committed -2 of orders@broker-a:0" in broken(truths.offsets_forward, history(negative))


def _receipt(token: str, at: float) -> Returned:
    return Returned(at, "app-1.1", "billing", QUEUE, 0, token)


@pytest.mark.parametrize(
    ("facts", "is_broken"),
    [
        ([started(0), _receipt("a", 2.0), Published(3.0, "broker.1", "a"), finished(0, 4.0)], False),
        ([started(0), _receipt("a", 2.0), finished(0, 4.0)], True),
        ([started(0), _receipt("a", 2.0), finished(0, 4.0, "failed")], False),
        # Twice at one message, after its queue was moved: the second one's receipt is not the first one's.
        ([started(0), started(0), _receipt("a", 2.0), Published(3.0, "b", "a"), _receipt("b", 3.5), finished(0, 4.0),
          Published(5.0, "b", "b"), finished(0, 6.0)], False),
        ([started(0), started(0), _receipt("a", 2.0), finished(0, 4.0), _receipt("b", 4.5), Published(5.0, "b", "b"),
          finished(0, 6.0)], True),
    ],
)  # fmt: skip
def test_what_is_returned_is_stored_before_its_run_is_done(facts: list[Fact], is_broken: bool) -> None:
    told = history(*facts, publishing={"billing"})

    assert is_broken == ("was not stored yet" in broken(truths.published_first, told))
