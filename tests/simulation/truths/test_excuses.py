"""What truths let pass is counted, and what they let pass too often is a complaint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from framework.model.queue import MessageQueue
from tests.simulation import checkers
from tests.simulation.__main__ import Result, complaints
from tests.simulation.checkers import (
    acknowledged_is_stored,
    calm_runs_do_not_repeat,
    offsets_forward,
    retries_come,
    views_may_differ,
    who_is_heard_counts,
)
from tests.simulation.checkers.disturbances import LASTS_S, Disturbances
from tests.simulation.checkers.excuses import MUST, excuse, too_often
from tests.simulation.checkers.pops_hold import ACKED, pops_hold
from tests.simulation.facts import (
    Acquired,
    Committed,
    Fact,
    Fault,
    Finished,
    Reassigned,
    Remade,
    Said,
    Sent,
    SentBack,
    Started,
)
from tests.simulation.faults.kinds import NAMES
from tests.simulation.history import History
from tests.simulation.simulation import Verdict, draw
from tests.simulation.ways.facts import Acked, Handed

QUEUE = MessageQueue("orders", "broker-a", 0)
A, B = "app-1.1", "app-2.1"


def history(*facts: Fact, is_calm: bool = False) -> History:
    return History(0, facts=list(facts), groups=["billing"], is_calm=is_calm)


def test_an_excuse_is_counted_by_truth_and_reason() -> None:
    told = history()
    excuse(told, "nothing lost", "a reason")
    excuse(told, "nothing lost", "a reason")

    assert {("nothing lost", "a reason"): 2} == told.excuses


def test_one_that_is_used_in_more_than_a_tenth_of_the_runs_is_named() -> None:
    excused = {("a truth", "often"): 31, ("a truth", "seldom"): 30, next(iter(MUST)): 300}
    assert ["truth 'a truth' excused something in 31 of 300 runs: often"] == list(too_often(excused, 300))


def test_the_report_counts_the_runs_that_were_drawn() -> None:
    """Seeds that are kept since they failed are no sample: their faults are those of the failures."""
    result = Result(300, 1000)
    for seed in (7, *range(1000, 1031)):
        result.add(Verdict(draw(seed, seconds=1), excuses=Counter({("a truth", "often"): 2})))

    assert {("a truth", "often"): 31} == result.excused
    assert {("a truth", "often"): 62} == result.excuses
    assert "truth 'a truth' excused something in 31 of 300 runs: often" in list(complaints(result))


def test_a_reason_that_must_be_is_one_of_a_checker() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(checkers.__file__).parent.glob("*.py")]
    for truth, reason in MUST:
        assert any(f'NAME = "{truth}"' in source and f'"{reason}")' in source for source in sources), truth


def test_every_kind_of_fault_has_a_span_or_lasts_until_the_end() -> None:
    """Weather does, an answer that waits to be stolen, and an outage until everything is healed."""
    assert {"split-chunks", "joined-chunks", "stall", "lose-reply", "outage"} == set(NAMES) - LASTS_S.keys()


def test_a_fault_disturbs_while_it_is_under_way_and_a_little_after() -> None:
    facts = (Fault(10.0, "app-1", "stop"), Fault(20.0, "broker", "broker-stop"), Fault(30.0, "everybody", "healed"))
    faults = Disturbances(history(*facts), {"healed"}, after_s=1.0)

    assert not faults.touch(0.0, 9.9)
    assert faults.touch(9.0, 10.0)
    assert faults.touch(19.0, 19.0)
    assert not faults.touch(19.1, 19.9)
    assert faults.touch(19.0, 19.0, A)
    assert not faults.touch(19.0, 19.0, B)
    assert faults.touch(24.5, 24.9, B)
    assert 25.0 == faults.until(24.5, 24.9)
    assert faults.until(25.1, 60.0) is None


def test_who_is_stopped_when_everything_is_healed_is_stopped_for_its_whole_time() -> None:
    facts = (Fault(29.9, "broker", "broker-stop"), Fault(29.9, "broker", "refuse"), Fault(30.0, "everybody", "healed"))
    assert 33.9 == Disturbances(history(*facts), {"healed"}).until(33.0, 33.0)
    assert Disturbances(history(*facts), {"healed", "broker-stop"}).until(33.0, 33.0) is None


def test_what_is_not_known_to_end_lasts_until_everything_is_healed() -> None:
    facts = (Fault(10.0, "broker", "a new kind"), Fault(30.0, "everybody", "healed"))
    assert 30.0 == Disturbances(history(*facts), {"healed"}).until(12.0, 12.0)
    assert not Disturbances(history(*facts), {"healed", "a new kind"}).touch(0.0, 99.0)


def test_a_message_that_was_sent_after_its_topic_was_made_anew_must_be_there() -> None:
    def broken(sent_at: float, excused_until: float) -> tuple[int, int]:
        told = history(Remade(10.0, "broker", "orders"), Sent(sent_at, "producer.1", "m1", QUEUE, 0))
        told.stored, told.excused_until = {QUEUE: {}}, excused_until
        return len(list(acknowledged_is_stored(told))), sum(told.excuses.values())

    assert (0, 0) == broken(9.0, 30.0)
    assert (0, 1) == broken(11.0, 30.0)
    assert (1, 0) == broken(31.0, 30.0)


def test_a_newcomer_repeats_what_was_just_finished_and_nothing_older() -> None:
    def broken(finished_at: float) -> list[str]:
        told = history(
            Finished(finished_at, A, "billing", "m1", QUEUE, 0, 1, "ok"),
            Acquired(20.0, B, "billing", str(QUEUE), 0),
            Started(21.0, B, "billing", "m1", QUEUE, 0, 1),
            is_calm=True,
        )
        return [str(each) for each in calm_runs_do_not_repeat(told)]

    assert [] == broken(19.0)
    assert "had finished it 10.000s before the queue was taken" in broken(10.0)[0]


def test_an_acquisition_goes_back_once() -> None:
    def commit(at: float, offset: int) -> Committed:
        return Committed(at, "broker.1", A, "billing", QUEUE, offset)

    taken = Acquired(2.0, A, "billing", str(QUEUE), 3)
    assert [] == list(offsets_forward(history(commit(1.0, 9), taken, commit(3.0, 4), commit(4.0, 5))))
    (said,) = offsets_forward(history(commit(1.0, 9), taken, commit(3.0, 5), commit(4.0, 4)))
    assert "committed 4" in str(said)
    assert "after 5" in str(said)


@pytest.mark.parametrize(("is_on_a_pull", "at", "broken"), [(True, 2.005, 0), (True, 2.2, 1), (False, 2.005, 1)])
def test_a_commit_is_overtaken_on_another_connection_and_for_milliseconds(
    is_on_a_pull: bool, at: float, broken: int
) -> None:
    newer = Committed(2.0, "broker.1", A, "billing", QUEUE, 20)
    late = Committed(at, "broker.1", A, "billing", QUEUE, 17, is_on_a_pull=is_on_a_pull)
    assert broken == len(list(offsets_forward(history(newer, late))))


def test_a_late_retry_is_excused_beside_the_fault_and_nowhere_else() -> None:
    def broken(fault_at: float) -> int:
        told = history(Fault(fault_at, "broker", "broker-stop"), SentBack(50.0, "broker.1", "billing", "m1"))
        told.delays_ms, told.fired = (100, 200, 300), [("billing", "m1", 2, 53.0)]
        return len(list(retries_come(told)))

    assert 0 == broken(50.05)
    assert 1 == broken(10.0)


def test_a_broker_that_is_back_brings_what_was_due_at_once() -> None:
    """It may be away for four seconds, and takes three to come to itself."""

    def broken(came_at: float) -> int:
        told = history(Fault(50.05, "broker", "broker-stop"), SentBack(50.0, "broker.1", "billing", "m1"))
        told.delays_ms, told.fired = (100, 200, 300), [("billing", "m1", 2, came_at)]
        return len(list(retries_come(told)))

    assert 0 == broken(57.1)
    assert 1 == broken(58.0)


def test_views_that_differ_are_excused_beside_the_fault_and_nowhere_else() -> None:
    def broken(fault_at: float) -> int:
        facts = [Started(at, who, "billing", f"m{at}", QUEUE, 0, 1) for at, who in ((200.0, A), (200.1, B))]
        told = history(Fault(fault_at, "app-1", "cut"), *facts)
        told.orderly = {"billing": 1}
        return len(list(views_may_differ(told)))

    assert 0 == broken(180.0)
    assert 1 == broken(10.0)


def test_who_is_not_counted_is_excused_beside_the_fault_and_nowhere_else() -> None:
    def broken(fault_at: float) -> int:
        known = Reassigned(10.0, B, "billing", ("q",), (), 2, frozenset({A, B}))
        divided = Reassigned(200.0, A, "billing", ("q",), (), 1, frozenset({A, B}))
        return len(list(who_is_heard_counts(history(Fault(fault_at, "app-1", "cut"), known, divided))))

    assert 0 == broken(180.0)
    assert 1 == broken(20.0)


def test_who_left_a_silent_broker_may_be_missed_for_a_while_and_who_lost_another_one_not() -> None:
    def broken(at: float, reason: str, who: str = B) -> int:
        left = Said(at, who, "info", "disconnected", {"peer": "127.0.1.1:9876", "reason": reason})
        known = Reassigned(10.0, B, "billing", ("q",), (), 2, frozenset({A, B}))
        divided = Reassigned(200.0, A, "billing", ("q",), (), 1, frozenset({A, B}))
        return len(list(who_is_heard_counts(history(known, left, divided))))

    silent = "not one byte within 0.6 s of a request"
    assert 0 == broken(199.0, silent)
    assert 1 == broken(160.0, silent)
    assert 1 == broken(199.0, silent, A)
    assert 1 == broken(199.0, "the other side closed it")


def test_what_was_sent_again_into_a_topic_that_was_made_anew_is_two_messages() -> None:
    def broken(*facts: Fact) -> set[str]:
        told = history(
            Handed(1.0, A, "billing", (QUEUE, 7), 1, "m1", 1, 1.0, 6.0), Acked(2.0, A, "billing", (QUEUE, 7), 1), *facts
        )
        told.popping = {"billing"}
        told.stored = {QUEUE: {0: "m1"}}
        return {violation.truth for violation in pops_hold(told)}

    again = Handed(9.0, B, "billing", (QUEUE, 0), 9, "m1", 1, 9.0, 14.0)
    assert {ACKED} == broken(again)
    assert set() == broken(Remade(5.0, "tester.1", "orders"), again)
    assert {ACKED} == broken(
        Remade(5.0, "tester.1", "orders"), Handed(9.0, B, "billing", (QUEUE, 7), 9, "m1", 1, 9.0, 14.0)
    )
