"""The truths about moving queues: silent about good histories, and exact about what is wrong with bad ones."""

from __future__ import annotations

from collections.abc import Iterable

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation.checkers import little_moves, no_storm, nothing_pauses, views_may_differ
from tests.simulation.checkers.no_storm import STORM
from tests.simulation.facts import Acquired, Bent, Fact, Fault, Finished, Life, Reassigned, Sent, Started
from tests.simulation.history import History

QUEUE = MessageQueue("orders", "broker-a", 0)
A, B = "app-1.1", "app-2.1"


def history(*facts: Fact, is_calm: bool = True, grace_s: float = 0.0, orderly: bool = False) -> History:
    found = History(0, is_calm=is_calm, facts=list(facts), groups=["billing"], places={"billing": 1})
    found.grace_s, found.is_protected = grace_s, True
    found.orderly = {"billing": 1} if orderly else {}
    return found


def said(found: Iterable[Violation]) -> list[str]:
    return [violation.fact for violation in found]


def taken(at: float, who: str = A) -> Acquired:
    return Acquired(at, who, "billing", str(QUEUE), 0)


def moved(at: float, who: str = A, *, gained: tuple[str, ...] = (), lost: tuple[str, ...] = ()) -> Reassigned:
    return Reassigned(at, who, "billing", gained, lost)


def sent(at: float, offset: int = 0) -> Sent:
    return Sent(at, "producer.1", f"m{offset}", QUEUE, offset)


def ran(begin: float, end: float, offset: int = 0, who: str = A) -> tuple[Fact, Fact]:
    return (
        Started(begin, who, "billing", f"m{offset}", QUEUE, offset, 1),
        Finished(end, who, "billing", f"m{offset}", QUEUE, offset, 1, "ok"),
    )


def test_what_is_taken_away_and_given_back_in_one_round_is_a_pause() -> None:
    queue = str(QUEUE)
    assert [] == said(nothing_pauses(history(moved(1.0, gained=(queue,)), moved(2.0, lost=(queue,)))))
    (found,) = said(nothing_pauses(history(moved(1.0, gained=(queue,), lost=(queue,)), is_calm=False)))
    assert found == f"app-1.1 gave up {queue} of billing to take it anew"


def test_a_message_that_waits_though_its_owner_stayed_and_had_a_place_free_is_a_pause() -> None:
    assert [] == said(nothing_pauses(history(taken(1.0), sent(2.0), *ran(2.4, 2.5))))
    late_for_others = history(taken(1.0), sent(2.0), *ran(5.1, 5.2))
    (found,) = said(nothing_pauses(late_for_others))
    late_for_others.lingering.add("billing")
    assert [] == said(nothing_pauses(late_for_others))
    assert found.endswith("had orders@broker-a:0 of billing since 1.000s and a place free; 0 waited 3.100 s")
    assert 1 == len(said(nothing_pauses(history(taken(1.0), sent(2.0), *ran(2.2, 2.3)), most_s=0.1)))


def test_who_was_busy_or_had_just_taken_the_queue_does_not_pause_it() -> None:
    busy = (taken(1.0), sent(2.0), *ran(2.0, 9.0), sent(3.0, 1), *ran(9.1, 9.2, 1))
    assert [] == said(nothing_pauses(history(*busy)))
    late = (sent(1.0), taken(2.0), *ran(3.0, 3.1))
    assert [] == said(nothing_pauses(history(*late)))
    handed_over = (taken(1.0), sent(2.0), moved(2.1, lost=(str(QUEUE),)), taken(2.2, B), *ran(4.0, 4.1, who=B))
    assert [] == said(nothing_pauses(history(*handed_over)))


def lives(*ends: float) -> list[Fact]:
    """Two machines; the first one is killed at these instants and has its queue again two seconds later."""
    facts: list[Fact] = [Life(0.0, A, "started"), Life(0.0, B, "started")]
    facts += [moved(1.0, A, gained=("orders@broker-a:1",)), moved(1.0, B, gained=("orders@broker-a:0",))]
    for number, end in enumerate(ends):
        facts.append(Life(end, f"app-1.{number + 1}", "crashed"))
        facts.append(moved(end + 2.0, f"app-1.{number + 2}", gained=("orders@broker-a:1",)))
    return facts


def test_with_names_a_restart_moves_nothing() -> None:
    lost = moved(21.0, B, lost=("orders@broker-a:1",))
    good = history(*lives(20.0), grace_s=10.0)
    assert [] == said(little_moves(good))
    bad = history(*sorted([*lives(20.0), lost], key=lambda fact: fact.at), grace_s=10.0)
    (found,) = said(little_moves(bad))
    assert found == "app-2.1 lost orders@broker-a:1 of billing, and nobody was away for its grace"


def test_a_round_that_began_before_all_had_found_each_other_may_end_after_it() -> None:
    def divided(*steps: tuple[float, str], who: str = B) -> list[str]:
        bent = [Bent(at, who, mark, "for 5.000s") for at, mark in steps]
        lost = moved(21.0, B, lost=("%RETRY%billing@broker-b:0",))
        return said(little_moves(history(*sorted([*lives(), *bent, lost], key=lambda fact: fact.at), grace_s=10.0)))

    assert [] == divided((14.0, "queues are known"))
    assert [] == divided((9.0, "queues are known"), (14.0, "queues are known"), (17.0, "member lists are known"))
    assert 1 == len(divided((5.0, "queues are known"), (16.0, "queues are known"))), "the next round"
    assert 1 == len(divided((14.0, "a heartbeat is due")))
    assert 1 == len(divided((14.0, "queues are known"), who=A))


def test_who_was_away_for_longer_than_its_grace_is_replaced() -> None:
    gone: list[Fact] = [*lives(), Life(20.0, A, "crashed"), moved(30.1, B, gained=("orders@broker-a:1",))]
    back = moved(40.0, B, lost=("orders@broker-a:1",))
    assert [] == said(little_moves(history(*gone, back, grace_s=10.0)))


def test_a_flapper_changes_the_division_three_times_a_minute_at_most() -> None:
    def flapping(changes: int) -> History:
        seen = [moved(20.0 + number, B, gained=(f"orders@broker-a:{number}",)) for number in range(changes)]
        return history(*lives(19.0), *seen)

    assert [] == said(little_moves(flapping(3)))
    assert ["app-2.1's share of billing changed 4 times within a minute, of 1 that came and went"] == said(
        little_moves(flapping(4))
    )


def test_where_somebody_was_cut_off_lists_may_be_anything() -> None:
    facts = [*lives(20.0), moved(21.0, B, lost=("orders@broker-a:1",)), Fault(1.0, "the network", "cut")]
    assert [] == said(little_moves(history(*facts, grace_s=10.0)))


def storm(*facts: Fact, over: str = "0") -> list[str]:
    return said(no_storm(history(Fault(10.0, "everybody", STORM, over), *facts)))


def test_after_a_storm_queues_rest_soon_and_are_not_handed_round() -> None:
    moves = [taken(11.0 + number / 2) for number in range(4)]
    assert [] == storm(*moves[:3], moved(14.9, lost=(str(QUEUE),)))
    assert ["orders@broker-a:0 of billing moved 3 times"] == storm(*moves)
    late = moved(16.9, lost=(str(QUEUE),))
    assert ["app-1.1 was still to give or take orders@broker-a:0"] == storm(late)
    assert [] == storm(late, over="2")


def test_two_are_never_in_one_orderly_queue() -> None:
    (begun, ended), (other, _) = ran(1.0, 2.0), ran(1.5, 2.5, 1, B)
    assert [] == said(views_may_differ(history(begun, other, ended)))
    (found,) = said(views_may_differ(history(begun, other, ended, orderly=True)))
    assert found == "app-2.1 started 1 of orders@broker-a:0 for billing while app-1.1 was at it"
    assert [] == said(views_may_differ(history(begun, ended, other, orderly=True)))
    assert [] == said(views_may_differ(history(begun, Life(1.2, A, "crashed"), other, orderly=True)))
    assert [] == said(views_may_differ(history(Fault(0.5, A, "stop"), begun, other, orderly=True)))
