"""`nearby`. What Java answers stands in tests/golden; here is what is ours."""

from __future__ import annotations

import pytest

from framework.hooks.builtin.allocation.circle import Circle
from framework.hooks.builtin.allocation.nearby import Nearby
from framework.model.queue import MessageQueue
from framework.testing.laws import check_allocation

BROKERS = ("east-a", "north-a", "west-a")
QUEUES = [MessageQueue("orders", broker, number) for broker in BROKERS for number in range(4)]
MEMBERS = ["east-1@1", "east-2@2", "west-1@3"]
ROOMS = {"left": ["broker-a", "10.1."], "right": ["broker-", "10.2.", "10.1.9."]}


def shares(strategy: Nearby, members: list[str]) -> list[list[str]]:
    return [
        [f"{queue.broker[0]}{queue.number}" for queue in strategy.allocate(member, members, QUEUES)]
        for member in members
    ]


def test_a_room_is_its_own_members_and_a_room_without_members_is_everybodys() -> None:
    assert [["e0", "e1", "n0", "n1"], ["e2", "e3", "n2"], ["n3", "w0", "w1", "w2", "w3"]] == shares(Nearby(), MEMBERS)


def test_it_divides_by_the_strategy_it_stands_on() -> None:
    assert [["e0", "e2", "n0", "n3"], ["e1", "e3", "n1"], ["n2", "w0", "w1", "w2", "w3"]] == shares(
        Nearby(Circle()), MEMBERS
    )


def test_a_member_in_a_room_without_brokers_shares_what_nobody_has() -> None:
    assert [["n0", "n1"], ["n2", "n3"]] == [
        [name for name in share if name[0] == "n"] for share in shares(Nearby(), ["east-1", "south-1"])
    ]


def test_it_keeps_the_laws() -> None:
    check_allocation(Nearby(), members=MEMBERS, queues=QUEUES)
    check_allocation(Nearby(Circle(), separator="@"))


def test_rooms_may_be_told_by_how_names_begin_and_the_longest_counts() -> None:
    strategy = Nearby(rooms=ROOMS)

    names = ("broker-a", "broker-b", "10.1.0.1@7", "10.2.0.1@7", "10.1.9.1@7")
    assert ["left", "right", "left", "right", "right"] == [strategy.room(name) for name in names]


@pytest.mark.parametrize("strategy", [Nearby(), Nearby(rooms=ROOMS)])
def test_who_is_in_no_room_voids_the_round_and_is_named(strategy: Nearby) -> None:
    """As in Java: a guess would give queues two owners or none."""
    with pytest.raises(ValueError, match=r"'-x' is in no room; add its prefix to allocation\.nearby\.rooms"):
        strategy.allocate("-x", ["-x"], QUEUES)
