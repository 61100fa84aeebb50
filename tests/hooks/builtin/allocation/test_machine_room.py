"""`machine_room`. What Java answers stands in tests/golden; here is what is ours."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from framework.hooks.builtin.allocation.machine_room import MachineRoom, MachineRoomOptions
from framework.model.queue import MessageQueue
from framework.testing.laws import check_allocation

QUEUES = [MessageQueue("orders", broker, number) for broker in ("room1@a", "room2@b") for number in range(5)]


def test_only_queues_of_the_rooms_are_shared_out() -> None:
    """Java's own example."""
    strategy, members = MachineRoom(["room1"]), ["one", "two"]

    assert [0, 1, 4] == [queue.number for queue in strategy.allocate("one", members, QUEUES)]
    assert [2, 3] == [queue.number for queue in strategy.allocate("two", members, QUEUES)]


def test_it_keeps_the_laws_but_for_cover() -> None:
    check_allocation(MachineRoom(["room1"]), covers=False, within=1, queues=QUEUES)
    check_allocation(MachineRoom(["room1", "room2"]), within=1, queues=QUEUES)


def test_queues_that_nobody_owns_are_said_with_their_number() -> None:
    assert ["5 of 10 queues are on brokers outside the rooms (room1)"] == MachineRoom(["room1"]).remarks(
        ["one"], QUEUES
    )
    assert [] == MachineRoom(["room1", "room2"]).remarks(["one"], QUEUES)
    assert ["10 of 10 queues are on brokers outside the rooms (none)"] == MachineRoom().remarks(["one"], QUEUES)


def test_copies_of_what_failed_have_an_owner_wherever_they_lie() -> None:
    """A broker of the room that is closed for writing has the copy sent to another, of whichever room."""
    retries = [MessageQueue("%RETRY%billing", broker, 0) for broker in ("room1@a", "room2@b")]
    strategy, members = MachineRoom(["room1"]), ["one", "two"]

    taken = [queue for member in members for queue in strategy.allocate(member, members, retries)]
    assert retries == sorted(taken)
    assert [] == strategy.remarks(members, retries)


@pytest.mark.parametrize("rooms", [[], [""], None])
def test_a_room_must_be_named(rooms: object) -> None:
    with pytest.raises(ValidationError):
        MachineRoomOptions.model_validate({"rooms": rooms})
