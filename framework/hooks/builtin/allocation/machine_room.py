"""`machine_room`: only queues on brokers of the named rooms, in even shares. Identical to the Java client's.

A broker's room stands before the `@` in its name: `room1@broker-a`. Queues of other brokers have no owner in this
group, which is the point: another group, in another room, reads them. `nearby` leaves none without.

Not so those of the group's own retry topic, which Java leaves to nobody as well: where a broker is closed for writing,
a copy of what failed goes to any other, and would lie there unseen. They are divided by `averaging`, beside the rest,
so that shares with Java members stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX

_WHOLE = Averaging()
Room = Annotated[str, Field(min_length=1)]


class MachineRoomOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    rooms: Annotated[tuple[Room, ...], Field(min_length=1)]
    """The rooms whose brokers this group reads from."""


class MachineRoom:
    name = "machine_room"
    options = MachineRoomOptions

    def __init__(self, rooms: Sequence[str] = ()) -> None:
        self._rooms = tuple(rooms)

    def configured(self, options: MachineRoomOptions, choose: object) -> MachineRoom:
        return MachineRoom(options.rooms)

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if member not in members:
            return []
        ours = [queue for queue in queues if self._is_ours(queue)]
        place, count = members.index(member), len(members)
        share, rest = divmod(len(ours), count)
        mine = ours[place * share : (place + 1) * share]
        # What is left over lies behind everybody's run, one for each of the first members.
        mine += ours[share * count + place :][:1] if place < rest else []
        return mine + _WHOLE.allocate(member, members, [queue for queue in queues if self._is_retried(queue)])

    def remarks(self, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[str]:
        count = sum(not self._is_ours(queue) and not self._is_retried(queue) for queue in queues)
        rooms = ", ".join(self._rooms) or "none"
        return [f"{count} of {len(queues)} queues are on brokers outside the rooms ({rooms})"] if count else []

    def _is_retried(self, queue: MessageQueue) -> bool:
        """Whether a copy of what failed in our rooms may lie outside of them."""
        return queue.topic.startswith(RETRY_PREFIX) and not self._is_ours(queue)

    def _is_ours(self, queue: MessageQueue) -> bool:
        parts = queue.broker.rstrip("@").split("@")  # Java's split drops empty parts at the end
        return len(parts) == 2 and parts[0] in self._rooms


@hookimpl
def register_allocation_strategies() -> list[AllocationStrategy]:
    return [MachineRoom()]
