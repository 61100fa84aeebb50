"""The checker of fences: silent about a good history, and exact about what is wrong with a bad one."""

from __future__ import annotations

from framework.model.queue import MessageQueue
from tests.simulation.checkers import fences_hold
from tests.simulation.facts import Acquired, Committed, Fact, Remade, Started
from tests.simulation.history import History

QUEUE, OTHER = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def broken(*facts: Fact) -> list[str]:
    return [str(violation) for violation in fences_hold(History(0, facts=list(facts), groups=["billing"]))]


def committed(epoch: int | None, queue: MessageQueue = QUEUE, *, is_refused: bool = False) -> Committed:
    return Committed(1.0, "broker.1", "app-1.1", "billing", queue, 5, epoch, is_refused)


def test_epochs_that_rise_and_commits_that_are_refused_are_well() -> None:
    assert [] == broken(committed(3), committed(3), committed(4), committed(3, is_refused=True), committed(3, OTHER))


def test_members_without_epochs_have_no_fence() -> None:
    assert [] == broken(committed(3), committed(None))


def test_a_commit_of_a_former_owner_that_counts_is_named() -> None:
    (said,) = broken(committed(4), committed(3))
    assert "app-1.1 committed 5 of orders@broker-a:0 for billing in epoch 3, and it counted, after 4 had begun" in said


def test_a_commit_counts_no_more_once_a_later_owner_has_begun() -> None:
    """Also where that one has committed nothing yet."""
    begun = Started(1.5, "app-2.1", "billing", "m1", QUEUE, 5, 1, epoch=4)
    (said,) = broken(committed(3), begun, committed(3))
    assert "in epoch 3, and it counted, after 4 had begun" in said


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    assert [] == broken(committed(4), Remade(2.0, "broker.1", "orders"), committed(3))


def test_an_epoch_of_the_former_life_fences_nobody_off_and_one_of_the_new_life_does() -> None:
    remade = Remade(2.0, "broker.1", "orders")
    taken = Acquired(1.0, "app-2.1", "billing", str(QUEUE), 5)
    moved = Acquired(3.0, "app-2.1", "billing", str(QUEUE), 0, is_moved=True)
    begun = Started(4.0, "app-2.1", "billing", "m1", QUEUE, 0, 1, epoch=4)
    assert [] == broken(taken, remade, moved, begun, committed(3))

    taken = Acquired(3.0, "app-2.1", "billing", str(QUEUE), 0)
    (said,) = broken(remade, taken, begun, committed(3))
    assert "in epoch 3, and it counted, after 4 had begun" in said
