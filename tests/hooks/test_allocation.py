"""The built-in strategies: identical to the Java client's, queue for queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.circle import Circle
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue

STRATEGIES = [Averaging(), Circle()]


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("orders", f"broker-{chr(97 + at // 8)}", at % 8) for at in range(count)]


def members(count: int) -> list[str]:
    return [f"10.0.0.{at:03}@1" for at in range(count)]


def shares(strategy: AllocationStrategy, queue_count: int, member_count: int) -> list[list[int]]:
    """Each member's queues by their place on the sorted list."""
    every, all_members = queues(queue_count), members(member_count)
    return [[every.index(queue) for queue in strategy.allocate(each, all_members, every)] for each in all_members]


def java_averaging(place: int, members: int, count: int) -> list[int]:
    """AllocateMessageQueueAveragely, step for step."""
    mod = count % members
    if count <= members:
        average = 1
    else:
        average = count // members + 1 if mod > 0 and place < mod else count // members
    start = place * average if mod > 0 and place < mod else place * average + mod
    return [(start + i) % count for i in range(min(average, count - start))]


@pytest.mark.parametrize("member_count", range(1, 14))
@pytest.mark.parametrize("queue_count", [1, 2, 3, 4, 7, 8, 12, 16, 100])
def test_averaging_answers_what_java_answers(queue_count: int, member_count: int) -> None:
    expected = [java_averaging(place, member_count, queue_count) for place in range(member_count)]

    assert expected == shares(Averaging(), queue_count, member_count)


def test_averaging_by_example() -> None:
    assert [[0, 1, 2], [3, 4], [5, 6]] == shares(Averaging(), 7, 3)
    assert [[0], [1], []] == shares(Averaging(), 2, 3)


def test_circle_by_example() -> None:
    assert [[0, 3, 6], [1, 4], [2, 5]] == shares(Circle(), 7, 3)
    assert [[0], [1], []] == shares(Circle(), 2, 3)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda it: it.name)
@given(queue_count=st.integers(0, 60), member_count=st.integers(1, 20))
def test_every_queue_has_one_owner_and_shares_differ_by_one(
    strategy: AllocationStrategy, queue_count: int, member_count: int
) -> None:
    found = shares(strategy, queue_count, member_count)

    assert list(range(queue_count)) == sorted(place for share in found for place in share)
    sizes = [len(share) for share in found]
    assert 1 >= max(sizes) - min(sizes)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda it: it.name)
def test_who_is_not_on_the_list_owns_nothing(strategy: AllocationStrategy) -> None:
    assert [] == strategy.allocate("stranger", members(2), queues(4))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda it: it.name)
def test_strategies_keep_the_protocol(strategy: AllocationStrategy) -> None:
    assert isinstance(strategy, AllocationStrategy)
