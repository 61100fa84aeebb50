"""Queue locks: one owner, renewed by asking again, free after 60 seconds of silence."""

from __future__ import annotations

from framework.broker.locks import LOCK_LIFE_MS, LOCKS_MAX, QueueLocks
from framework.broker.settings import BrokerSettings
from framework.broker.store.database import open_memory
from framework.model.queue import MessageQueue
from framework.wire.bodies.group import LockBatch, LockedQueues
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab
from tests.simulation.left_out import left_out

ONE, TWO = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def test_a_queue_has_one_owner() -> None:
    locks = QueueLocks()

    assert locks.lock("g", "a", [ONE, TWO], 0) == [ONE, TWO]
    assert locks.lock("g", "b", [ONE, TWO], 1) == []
    assert locks.lock("other", "b", [ONE], 1) == [ONE]


def test_asking_again_renews() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [ONE], 0)
    locks.lock("g", "a", [ONE], LOCK_LIFE_MS)

    assert locks.lock("g", "b", [ONE], LOCK_LIFE_MS + 1) == []
    assert locks.lock("g", "b", [ONE], 2 * LOCK_LIFE_MS + 1) == [ONE]


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [ONE], 0)
    locks.unlock("g", "b", [ONE])
    assert locks.lock("g", "b", [ONE], 1) == []

    locks.unlock("g", "a", [ONE, TWO])
    assert locks.lock("g", "b", [ONE], 1) == [ONE]


def test_a_group_works_in_order_while_any_of_its_locks_lives() -> None:
    locks = QueueLocks()
    assert not locks.is_any_alive("g", 0)
    locks.lock("g", "a", [ONE], 0)

    assert locks.is_any_alive("g", LOCK_LIFE_MS)
    assert not locks.is_any_alive("g", LOCK_LIFE_MS + 1)


def test_queues_that_clients_make_up_are_granted_up_to_a_limit() -> None:
    locks = QueueLocks()
    many = [MessageQueue("t", "broker-a", number) for number in range(LOCKS_MAX + 5)]

    assert len(locks.lock("g", "a", many, 0)) == len(locks) == LOCKS_MAX
    locks.unlock("g", "a", many)
    assert len(locks) == 0


def _ask(lab: BrokerLab, client_id: str, code: int = RequestCode.LOCK_BATCH_MQ) -> tuple[MessageQueue, ...]:
    answer = lab.answer(
        RemotingCommand(code, body=LockBatch(group="g", client_id=client_id, queues=(ONE, TWO)).encode())
    )
    return LockedQueues.decode(answer.body).queues if code == RequestCode.LOCK_BATCH_MQ else ()


def _restarted(lab: BrokerLab, settings: BrokerSettings | None = None) -> BrokerLab:
    again = BrokerLab(database=lab.database, settings=settings)
    again.clock.ms = lab.clock.ms
    return again


def test_after_a_restart_nobody_else_is_granted_what_could_still_be_trusted() -> None:
    """The former owner goes on at once; another waits until a minute after the restart, whatever the clocks said."""
    lab = BrokerLab()
    assert _ask(lab, "a") == (ONE, TWO)
    again = _restarted(lab)
    assert (_ask(again, "b"), _ask(again, "a")) == ((), (ONE, TWO))

    third = _restarted(again)
    third.timers.advance(LOCK_LIFE_MS - 1)
    assert _ask(third, "b") == ()
    third.timers.advance(2)
    assert _ask(third, "b") == (ONE, TWO)


def test_a_grant_is_answered_when_it_is_on_disk_and_a_renewal_at_once() -> None:
    lab = BrokerLab(is_prompt=False)
    lab.database.commits_inline = False
    body = LockBatch(group="g", client_id="a", queues=(ONE,)).encode()
    for _ in range(2):
        lab.ask(RemotingCommand(RequestCode.LOCK_BATCH_MQ, body=body))
    assert lab.client.answers == []
    for _ in range(3):
        lab.workers.work()
        lab.timers.turn()
    assert len(lab.client.answers) == 2

    lab.ask(RemotingCommand(RequestCode.LOCK_BATCH_MQ, body=body))
    assert len(lab.client.answers) == 3


def test_what_was_given_back_or_ran_out_is_free_after_a_restart() -> None:
    given_back, ran_out = BrokerLab(), BrokerLab()
    for lab in (given_back, ran_out):
        _ask(lab, "a")
    _ask(given_back, "a", RequestCode.UNLOCK_BATCH_MQ)
    given_back.timers.advance(1000)
    ran_out.timers.advance(2 * LOCK_LIFE_MS + 1000)

    assert [_ask(_restarted(lab), "b") for lab in (given_back, ran_out)] == [(ONE, TWO)] * 2


def test_a_broker_for_its_own_process_may_forget_them_as_rocketmq_does() -> None:
    lab = BrokerLab(settings=BrokerSettings(keeps_locks=False))
    _ask(lab, "a")

    assert _ask(_restarted(lab, lab.settings), "b") == (ONE, TWO)


def test_without_the_safeguard_another_is_granted_a_lock_too_soon() -> None:
    """So that the mutant is one."""
    lab = BrokerLab(database=open_memory())
    _ask(lab, "a")

    with left_out("a lock outlives a restart"):
        assert _ask(_restarted(lab), "b") == (ONE, TWO)
