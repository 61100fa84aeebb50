"""The checker of epochs: silent about a good history, and exact about what is wrong with a bad one."""

from __future__ import annotations

from framework.model.queue import MessageQueue
from tests.simulation.checkers import epochs_fence
from tests.simulation.facts import Acquired, Fact, Started
from tests.simulation.history import History
from tests.simulation.ways.facts import Looked

QUEUE = MessageQueue("orders", "broker-a", 0)
A, B = "app-1.1", "app-2.1"


def broken(*facts: Fact, orderly: bool = False) -> list[str]:
    history = History(0, facts=list(facts), groups=["billing"], orderly={"billing": 1} if orderly else {})
    return [str(violation) for violation in epochs_fence(history)]


def taken(who: str = A, *, is_moved: bool = False) -> Acquired:
    return Acquired(0.0, who, "billing", str(QUEUE), 0, is_moved)


def started(epoch: int | None, who: str = A) -> Started:
    return Started(1.0, who, "billing", "m5", QUEUE, 5, 1, who, epoch)


def test_each_acquisition_with_one_of_its_own_is_well() -> None:
    assert [] == broken(taken(), started(3), started(3), taken(B), started(4, B), taken(), started(5))
    assert [] == broken(taken(), started(None), taken(B), started(None, B))


def test_a_queue_that_its_broker_moved_keeps_its_epoch() -> None:
    assert [] == broken(taken(), started(3), taken(is_moved=True), started(3))


def test_one_that_two_share_is_named() -> None:
    (said,) = broken(taken(), started(3), taken(B), started(3, B))
    assert "app-2.1 started 5 of orders@broker-a:0 for billing in epoch 3" in said
    assert "an acquisition by app-1.1" in said


def test_one_process_does_not_share_between_two_acquisitions_either() -> None:
    assert 1 == len(broken(taken(), started(3), taken(), started(3)))


def test_a_lower_one_after_a_higher_is_wrong_in_order_only() -> None:
    facts = (taken(), taken(B), started(4, B), started(3))
    assert [] == broken(*facts)
    assert 1 == len(broken(*facts, orderly=True))
    assert 1 == len(broken(taken(), started(4), taken(), started(3))), "one process never goes back"


def test_what_is_kept_on_a_member_s_own_disk_is_that_machine_s_own() -> None:
    history = History(0, facts=[taken(), started(3), taken(B), started(3, B)], keeping_local={"billing"})
    assert [] == list(epochs_fence(history))
    history.facts += [taken(), started(3)]
    assert 1 == len(list(epochs_fence(history)))


def test_a_delivery_that_waited_for_its_store_of_keys_is_excused() -> None:
    def told(began: float) -> History:
        looked = Looked(1.5, A, "billing", "key-5", None, began)
        late = Started(2.0, A, "billing", "m5", QUEUE, 5, 1, A, 3)
        history = History(0, facts=[taken(), started(4), looked, late], groups=["billing"])
        history.keys = {("billing", "m5"): "key-5"}
        return history

    waited, came_after = told(0.5), told(1.2)
    assert [] == list(epochs_fence(waited))
    assert 1 == sum(waited.excuses.values())
    assert 1 == len(list(epochs_fence(came_after)))
