"""The checkers of what is kept above a gap: silent about a good history, exact about what is wrong with a bad one."""

from __future__ import annotations

from dataclasses import replace

from framework.model.queue import MessageQueue
from tests.simulation.checkers import (
    a_flush_covers_what_ended,
    commit_never_passes_a_gap,
    passed_over_was_finished,
    what_was_kept_is_not_repeated,
)
from tests.simulation.facts import (
    Acquired,
    Asked,
    Committed,
    Fact,
    Finished,
    Kept,
    PassedOver,
    Remade,
    Reset,
    Started,
)
from tests.simulation.history import History

QUEUE = MessageQueue("orders", "broker-a", 0)
REMADE = Remade(10.0, "admin", "orders")


def history(*facts: Fact) -> History:
    return History(0, facts=list(facts), groups=["billing"])


def taken(at: float, offset: int = 0, *, is_moved: bool = False) -> Acquired:
    return Acquired(at, "a.1", "billing", str(QUEUE), offset, is_moved)


def started(offset: int, at: float, life: str = "") -> Started:
    return Started(at, "a.1", "billing", f"m{offset}{life}", QUEUE, offset, 1)


def finished(offset: int, at: float, life: str = "", outcome: str = "ok") -> Finished:
    return Finished(at, "a.1", "billing", f"m{offset}{life}", QUEUE, offset, 1, outcome)


def kept(at: float, low: int, *ranges: tuple[int, int]) -> Kept:
    return Kept(at, "a.1", "billing", str(QUEUE), 1, low, ranges, at)


def without(*facts: Fact) -> list[str]:
    """The offsets that flushes were to cover and did not."""
    return [
        each.fact.partition(" without ")[2].partition(",")[0] for each in a_flush_covers_what_ended(history(*facts))
    ]


def test_a_flush_covers_what_ended_above_its_low_end() -> None:
    facts = (taken(0.0), started(1, 1.0), started(2, 1.0), finished(1, 1.5), finished(2, 2.5))

    assert [] == without(*facts, kept(3.0, 0, (1, 3)))
    assert ["2"] == without(*facts, kept(3.0, 0, (1, 2)))
    assert [] == without(*facts, kept(2.0, 0, (1, 2))), "built before it ended"
    assert [] == without(*facts, kept(3.0, 3)), "below the low end"
    assert [] == without(started(1, 1.0), finished(1, 1.5, outcome="failed"), kept(3.0, 0)), "waits for its copy"


def test_a_flush_need_not_cover_what_was_started_before_its_queue_was_taken_anew() -> None:
    """Of the topic's former life, or before the group was moved back: such a result is thrown away."""
    remade = (started(12, 9.0), REMADE, taken(11.0), finished(12, 20.0), kept(21.0, 3, (4, 7)))
    reset = (started(12, 9.0), Reset(10.0, "admin", "billing", QUEUE, 3), taken(11.0, 3, is_moved=True))

    assert [] == without(taken(0.0), *remade)
    assert [] == without(taken(0.0), *reset, finished(12, 20.0), kept(21.0, 3, (4, 7)))
    assert ["12"] == without(
        taken(0.0), *remade, started(12, 22.0, "b"), finished(12, 23.0, "b"), kept(24.0, 3, (4, 7))
    )


def test_a_flush_covers_what_was_started_again_while_its_former_handler_ran() -> None:
    facts = (taken(0.0), started(7, 1.0), taken(2.0, 3), started(7, 3.0), finished(7, 4.0), finished(7, 5.0))

    assert [] == without(*facts[:5], kept(6.0, 3)), "which of the two has ended is not to be told"
    assert ["7"] == without(*facts, kept(6.0, 3))


def test_which_of_two_runs_of_a_message_ended_first_is_known() -> None:
    """The later one failed; what the former one says then is thrown away."""
    both = (started(3, 1.0), taken(2.0), started(3, 2.1))
    former_late = replace(finished(3, 2.5, outcome="failed"), since=2.1), replace(finished(3, 3.0), since=1.0)
    former_early = replace(finished(3, 2.5, outcome="failed"), since=1.0), replace(finished(3, 3.0), since=2.1)

    assert [] == without(taken(0.0), *both, *former_late, kept(3.5, 0, (1, 2)))
    assert ["3"] == without(taken(0.0), *both, *former_early, kept(3.5, 0, (1, 2)))


def test_what_a_former_life_ends_late_is_no_end_in_the_new_one() -> None:
    late = (taken(0.0), started(0, 9.0), REMADE, taken(11.0), finished(0, 12.0))
    its_own = (started(0, 13.0, "b"), finished(0, 14.0, "b"))
    passed = PassedOver(15.0, "a.1", "billing", str(QUEUE), (0,))
    committed = Committed(15.0, "broker.1", "a.1", "billing", QUEUE, 1)

    assert 1 == len(list(passed_over_was_finished(history(*late, passed))))
    assert [] == list(passed_over_was_finished(history(*late, *its_own, passed)))
    assert 1 == len(list(commit_never_passes_a_gap(history(*late, committed))))
    assert [] == list(commit_never_passes_a_gap(history(*late, *its_own, committed)))


def test_an_owner_may_pass_over_what_it_had_read_before_its_topic_was_made_anew() -> None:
    """It cannot know. Whoever reads what was kept afterwards finds another message there."""
    passed = PassedOver(15.0, "a.1", "billing", str(QUEUE), (2,))
    early, late = (Asked(at, "a.1", "billing", str(QUEUE)) for at in (9.9, 10.1))
    facts = (taken(0.0), started(2, 1.0), finished(2, 2.0))

    assert [] == list(passed_over_was_finished(history(*facts, early, REMADE, passed)))
    assert 1 == len(list(passed_over_was_finished(history(*facts, early, REMADE, late, passed))))
    assert 1 == len(list(passed_over_was_finished(history(early, passed))))


def test_a_record_of_a_topic_s_former_life_says_nothing_of_the_message_that_is_there_now() -> None:
    """It was written just after the topic was made again."""
    facts = (
        taken(0.0), started(2, 1.0), finished(2, 2.0), REMADE, kept(10.1, 0, (2, 3)),
        Asked(20.0, "a.1", "billing", str(QUEUE)), taken(20.1),
    )  # fmt: skip

    assert [] == list(what_was_kept_is_not_repeated(history(*facts, started(2, 21.0, life="'"))))
    assert 1 == len(list(what_was_kept_is_not_repeated(history(*facts, started(2, 21.0)))))


def test_what_was_committed_and_moved_back_by_a_late_commit_may_be_repeated_until_it_is_kept_again() -> None:
    """The gap had been closed, and the last record speaks of no range; a stock broker believes any commit."""

    def committed(at: float, by: str, offset: int, before: int, *, is_refused: bool = False) -> Committed:
        return Committed(at, "broker.1", by, "billing", QUEUE, offset, before=before, is_refused=is_refused)

    kept_first = (taken(0.0), started(1, 1.0), finished(1, 1.5), kept(3.0, 0, (1, 2)), committed(4.0, "a.1", 2, 0))
    again = (Asked(20.0, "a.1", "billing", str(QUEUE)), taken(20.1), started(1, 21.0))
    told = history(*kept_first, committed(5.0, "b.1", 1, 2), *again)
    assert [] == list(what_was_kept_is_not_repeated(told))
    assert 1 == sum(told.excuses.values())
    for before in (
        (),
        (committed(5.0, "b.1", 2, 2),),
        (committed(5.0, "b.1", 1, 2, is_refused=True),),
        (committed(5.0, "b.1", 1, 2), kept(6.0, 0, (1, 2))),
    ):
        assert 1 == len(list(what_was_kept_is_not_repeated(history(*kept_first, *before, *again)))), before


def test_another_machine_does_not_know_what_is_kept_on_a_member_s_own_disk() -> None:
    record = kept(3.0, 0, (1, 2))
    other = (Asked(4.0, "b.1", "billing", str(QUEUE)), Acquired(4.5, "b.1", "billing", str(QUEUE), 0))
    repeat = Started(5.0, "b.1", "billing", "m1", QUEUE, 1, 1)
    same = (Asked(6.0, "a.2", "billing", str(QUEUE)), Acquired(6.5, "a.2", "billing", str(QUEUE), 0))
    told = history(taken(0.0), started(1, 1.0), finished(1, 1.5), record, *other, repeat)
    assert 1 == len(list(what_was_kept_is_not_repeated(told)))
    told.keeping_local = {"billing"}
    assert [] == list(what_was_kept_is_not_repeated(told))
    told.facts += [*same, Started(7.0, "a.2", "billing", "m1", QUEUE, 1, 1)]
    assert 1 == len(list(what_was_kept_is_not_repeated(told)))
