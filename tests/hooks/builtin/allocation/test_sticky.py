"""`sticky`: balanced within one, and few queues move."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.moves import figures
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.sticky import Sticky
from framework.model.queue import MessageQueue
from framework.testing.laws import check_allocation

GRID = (3, 4, 7, 8, 10, 16, 33, 64, 100)


def test_it_keeps_the_laws_and_is_balanced_within_one() -> None:
    check_allocation(Sticky(), within=1)


@settings(deadline=None, max_examples=40)
@given(
    members=st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=9, unique=True).map(sorted),
    count=st.integers(0, 40),
)
def test_any_names_are_balanced_within_one(members: list[str], count: int) -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in range(count)]
    shares = [Sticky().allocate(member, members, queues) for member in members]

    assert queues == sorted(queue for share in shares for queue in share)
    assert {len(share) for share in shares} <= {count // len(members), -(-count // len(members))}


def test_the_division_is_the_same_in_every_process_and_release() -> None:
    """Members of different ages stand in one group, so a change of the weights is a change of the protocol."""
    queues = [MessageQueue("orders", f"broker-{broker}", number) for broker in "ab" for number in range(4)]
    members = ["10.0.0.1@a", "10.0.0.2@b", "10.0.0.3@c"]

    assert [[0, 1], [2, 3, 7], [4, 5, 6]] == [
        sorted(queues.index(queue) for queue in Sticky().allocate(member, members, queues)) for member in members
    ]


def test_a_newcomer_moves_little_more_than_its_share() -> None:
    """The figures of the whole grid are printed by benchmarks.moves; these cells are a part of it."""
    found = figures(Sticky(), queues=GRID, groups=2)

    assert 1.3 >= found.mean
    assert 3 >= found.worst_mean
    assert 6 >= found.worst
    assert found.mean * 1.5 < figures(Averaging(), queues=GRID, groups=2).mean
