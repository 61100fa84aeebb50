"""Queue locks: one owner, renewed by asking again, free after 60 seconds of silence."""

from __future__ import annotations

from framework.broker.locks import LOCK_LIFE_MS, Locks
from framework.model.queue import MessageQueue

ONE, TWO = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def test_a_queue_has_one_owner() -> None:
    locks = Locks()

    assert locks.lock("g", "a", [ONE, TWO], 0) == [ONE, TWO]
    assert locks.lock("g", "b", [ONE, TWO], 1) == []
    assert locks.lock("other", "b", [ONE], 1) == [ONE]


def test_asking_again_renews() -> None:
    locks = Locks()
    locks.lock("g", "a", [ONE], 0)
    locks.lock("g", "a", [ONE], LOCK_LIFE_MS)

    assert locks.lock("g", "b", [ONE], LOCK_LIFE_MS + 1) == []
    assert locks.lock("g", "b", [ONE], 2 * LOCK_LIFE_MS + 1) == [ONE]


def test_only_the_owner_unlocks() -> None:
    locks = Locks()
    locks.lock("g", "a", [ONE], 0)
    locks.unlock("g", "b", [ONE])
    assert locks.lock("g", "b", [ONE], 1) == []

    locks.unlock("g", "a", [ONE, TWO])
    assert locks.lock("g", "b", [ONE], 1) == [ONE]


def test_a_group_works_in_order_while_any_of_its_locks_lives() -> None:
    locks = Locks()
    assert not locks.is_any_alive("g", 0)
    locks.lock("g", "a", [ONE], 0)

    assert locks.is_any_alive("g", LOCK_LIFE_MS)
    assert not locks.is_any_alive("g", LOCK_LIFE_MS + 1)
