"""`nearby`: queues go to members in their broker's room, by another strategy; a room without members is shared by all.

Identical to the Java client's AllocateMachineRoomNearby. Java asks a resolver of the user's for rooms; here a room is
what stands before the first `-` of a broker's name and of a client id (the resolver of Java's own test), or what
`rooms` says: client ids begin with the host, so `rooms: {east: [broker-a, 10.1.]}` tells both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.markers import hookimpl
from framework.model.allocation import Allocation, written
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue

Thing = TypeVar("Thing")
Beginning = Annotated[str, Field(min_length=1)]


class NearbyOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True)

    over: Annotated[Allocation, BeforeValidator(written)] = Allocation("averaging")
    """The strategy that divides the queues of a room."""
    separator: Beginning = "-"
    """What ends the room at the beginning of a name."""
    rooms: Mapping[str, tuple[Beginning, ...]] = Field(default_factory=dict)
    """{room: how its brokers and members begin}; the longest beginning that fits counts. Instead of `separator`."""


class Nearby:
    name = "nearby"
    options = NearbyOptions

    def __init__(
        self,
        over: AllocationStrategy | None = None,
        *,
        separator: str = "-",
        rooms: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._over = over or Averaging()
        self._separator = separator
        self._rooms = sorted(
            ((beginning, room) for room, beginnings in (rooms or {}).items() for beginning in beginnings),
            key=lambda pair: (-len(pair[0]), pair),
        )

    def configured(self, options: NearbyOptions, choose: Callable[[Allocation, str], AllocationStrategy]) -> Nearby:
        return Nearby(choose(options.over, "over"), separator=options.separator, rooms=options.rooms)

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if member not in members:
            return []
        members_of = _grouped(members, self.room)
        queues_of = _grouped(queues, lambda queue: self.room(queue.broker))
        mine: list[MessageQueue] = []
        for room in sorted(queues_of):
            takers = members_of.get(room, members)
            if member in takers:
                mine += self._over.allocate(member, takers, queues_of[room])
        return mine

    def room(self, name: str) -> str:
        """The room of a broker or member; a ValueError that names it when there is none."""
        if self._rooms:
            room = next((room for beginning, room in self._rooms if name.startswith(beginning)), "")
        else:
            room = name.partition(self._separator)[0]
        if not room:
            raise ValueError(f"{name!r} is in no room; add its prefix to allocation.nearby.rooms")
        return room


def _grouped(things: Sequence[Thing], room_of: Callable[[Thing], str]) -> dict[str, list[Thing]]:
    groups: dict[str, list[Thing]] = {}
    for each in things:
        groups.setdefault(room_of(each), []).append(each)
    return groups


@hookimpl
def register_allocation_strategies() -> list[AllocationStrategy]:
    return [Nearby()]
