"""`consistent_hash`. What Java answers stands in tests/golden; here is what is ours."""

from __future__ import annotations

from framework.hooks.builtin.allocation.consistent_hash import ConsistentHash, place
from framework.model.queue import MessageQueue
from framework.testing.laws import check_allocation

MEMBERS = ["10.0.0.1@a", "10.0.0.2@b", "10.0.0.3@c"]


def owners(broker: str) -> str:
    """The last letter of each queue's owner."""
    queues = [MessageQueue("TopicTest", broker, number) for number in range(8)]
    shares = {member: ConsistentHash().allocate(member, MEMBERS, queues) for member in MEMBERS}
    return "".join(next(member[-1] for member in MEMBERS if queue in shares[member]) for queue in queues)


def test_the_ring_is_javas() -> None:
    assert "cbaccccb" == owners("broker-a")
    assert "cbcbccac" == owners("broker-b")


def test_it_keeps_the_laws() -> None:
    check_allocation(ConsistentHash())


def test_a_newcomer_takes_from_others_and_moves_nothing_between_them() -> None:
    """What the ring is for, and what perfect balance cannot have."""
    queues = [MessageQueue("orders", "broker-a", number) for number in range(64)]
    before = {member: ConsistentHash().allocate(member, MEMBERS, queues) for member in MEMBERS}
    joined = [*MEMBERS, "10.0.0.4@d"]

    for member in MEMBERS:
        assert set(ConsistentHash().allocate(member, joined, queues)) <= set(before[member])


def test_a_name_that_utf_8_cannot_write_is_hashed_as_java_hashes_it() -> None:
    assert place("?") == place("\ud800")
