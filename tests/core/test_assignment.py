"""Assignment: what a strategy may answer, and what a round changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.core.assignment import Assignment, AssignmentChange, allocate
from framework.errors import StrategyFault
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.circle import Circle
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue

BUILT_IN: tuple[AllocationStrategy, ...] = (Averaging(), Circle())


def queues_of(count: int, topic: str = "orders") -> list[MessageQueue]:
    return [MessageQueue(topic, f"broker-{number % 3}", number // 3) for number in range(count)]


class Scripted:
    """A strategy that answers what a test wants, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, answer: Callable[[Sequence[MessageQueue]], list[MessageQueue]]) -> None:
        self._answer = answer
        self.asked: list[tuple[str, list[str], list[MessageQueue]]] = []

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        self.asked.append((member, list(members), list(queues)))
        return self._answer(queues)


def test_a_strategy_is_asked_with_sorted_lists_that_name_nothing_twice() -> None:
    """Members do not vote: only equal questions give answers that fit together."""
    strategy = Scripted(list)
    queues = queues_of(5)

    allocate(strategy, "b", ["c", "b", "a", "b"], [*reversed(queues), queues[0]])
    assert [("b", ["a", "b", "c"], sorted(queues))] == strategy.asked


def test_the_answer_comes_back_sorted() -> None:
    queues = queues_of(6)

    wanted = allocate(Scripted(lambda offered: list(reversed(offered))), "a", ["a"], queues)
    assert sorted(queues) == wanted


def test_a_member_that_is_not_listed_owns_nothing_and_asks_nobody() -> None:
    """The broker has not seen our heartbeat: others count without us, and a queue would have two owners."""
    strategy = Scripted(list)

    assert [] == allocate(strategy, "me", ["a", "b"], queues_of(4))
    assert [] == allocate(strategy, "me", [], queues_of(4))
    assert [] == strategy.asked


def test_a_stranger_voids_the_round_and_is_named() -> None:
    stranger = MessageQueue("orders", "nowhere", 7)

    with pytest.raises(StrategyFault, match=r"allocation 'scripted' named orders@nowhere:7, which is no queue"):
        allocate(Scripted(lambda _: [stranger]), "a", ["a"], queues_of(4))


def test_a_queue_named_twice_voids_the_round() -> None:
    with pytest.raises(StrategyFault, match="allocation 'scripted' named a queue twice"):
        allocate(Scripted(lambda queues: [queues[0], queues[0]]), "a", ["a"], queues_of(4))


@settings(deadline=None)
@given(
    strategy=st.sampled_from(BUILT_IN),
    members=st.lists(st.text("abcdef0123.@", min_size=1, max_size=6), min_size=1, max_size=12, unique=True),
    count=st.integers(0, 60),
    data=st.data(),
)
def test_built_in_strategies_cover_every_queue_once_and_evenly(
    strategy: AllocationStrategy, members: list[str], count: int, data: st.DataObject
) -> None:
    """Each member is asked with lists in an order of its own, as brokers hand them out."""
    queues = queues_of(count)
    shares = [
        allocate(strategy, member, data.draw(st.permutations(members)), data.draw(st.permutations(queues)))
        for member in members
    ]

    assert sorted(queues) == sorted(queue for share in shares for queue in share)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Averaging(), {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]}),
        (Circle(), {"a": [0, 3, 6], "b": [1, 4, 7], "c": [2, 5]}),
    ],
)
def test_built_in_strategies_divide_as_the_java_client_does(
    strategy: AllocationStrategy, expected: dict[str, list[int]]
) -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in range(8)]

    assert expected == {
        member: [queue.number for queue in allocate(strategy, member, list(expected), queues)] for member in expected
    }


def test_the_first_round_gains_and_the_next_tells_the_difference() -> None:
    assignment = Assignment()
    one, two, three = queues_of(3)

    assert AssignmentChange((one, two), ()) == assignment.put("orders", [two, one])
    assert AssignmentChange((three,), (one,)) == assignment.put("orders", [two, three])
    assert (two, three) == assignment.of("orders")


def test_a_round_that_changes_nothing_is_false() -> None:
    assignment = Assignment()
    queues = queues_of(2)
    assignment.put("orders", queues)

    assert not assignment.put("orders", list(reversed(queues)))
    assert assignment.put("orders", queues[:1])


def test_topics_do_not_touch_each_other() -> None:
    assignment = Assignment()
    orders, payments = queues_of(2), queues_of(2, "payments")
    assignment.put("payments", payments)
    assignment.put("orders", orders)

    assert ["orders", "payments"] == list(assignment.topics)
    assert [*orders, *payments] == assignment.queues
    assert AssignmentChange((), tuple(orders)) == assignment.put("orders", [])
    assert ["payments"] == list(assignment.topics)
    assert () == assignment.of("orders")


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 9)), max_size=12))
def test_gained_and_lost_always_lead_from_one_round_to_the_next(rounds: list[set[int]]) -> None:
    assignment = Assignment()
    queues = queues_of(10)
    owned: set[MessageQueue] = set()

    for wanted in ({queues[number] for number in numbers} for numbers in rounds):
        change = assignment.put("orders", sorted(wanted))
        assert owned.isdisjoint(change.gained)
        assert owned.issuperset(change.lost)
        owned = (owned - set(change.lost)) | set(change.gained)
        assert wanted == owned == set(assignment.queues)
