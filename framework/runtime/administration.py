"""AppAdministration: what brokers may ask of the application (the other side of `services/inbound.py`). Wiring only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.snapshot import Snapshot
from framework.ports import World
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.report.running_info import running_info
from framework.runtime.report.stacks import stacks
from framework.services.direct import consume_directly
from framework.wire.bodies.running import DirectResult, RunningInfo

STACKS_SECONDS = 1.0


class AppAdministration:
    """One per application; `groups` and `snapshot` are asked each time, for groups come to be after it."""

    def __init__(
        self,
        groups: Callable[[], list[ConsumerGroup]],
        snapshot: Callable[[], Snapshot],
        world: World,
    ) -> None:
        self._groups, self._snapshot, self._world = groups, snapshot, world
        self._stacks, self._stacks_at = "", float("-inf")
        """The last ones, and when they were taken (seconds, monotonic)."""

    def members_changed(self, group: str) -> None:
        found = self._find(group)
        if found is not None:
            found.members_changed()

    def group(self, name: str) -> GroupAdministration | None:
        found = self._find(name)
        return None if found is None else GroupAdministration(found, self._world)

    def running_info(self, group: str, *, with_stacks: bool) -> RunningInfo:
        return running_info(self._snapshot(), group, stacks=self._last_stacks() if with_stacks else None)

    def _last_stacks(self) -> str:
        """Taken once a second at most: they cost a millisecond and more, in which nothing else runs."""
        now = self._world.clock.monotonic()
        if now - self._stacks_at >= STACKS_SECONDS:
            self._stacks, self._stacks_at = stacks(), now
        return self._stacks

    def _find(self, name: str) -> ConsumerGroup | None:
        return next((group for group in self._groups() if group.plan.name == name), None)


class GroupAdministration:
    """One group of it, for the time of one request."""

    def __init__(self, group: ConsumerGroup, world: World) -> None:
        self._group, self._world = group, world

    def progress(self, topic: str) -> Mapping[MessageQueue, int]:
        """Read from the windows: what the table holds may be a second old."""
        return {
            queue: offset
            for queue, pull in sorted(self._group.owned.items())
            if queue.topic == topic and (offset := pull.flow.window.settle()) >= 0
        }

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        wanted = {queue: offset for queue, offset in sorted(offsets.items()) if queue.topic == topic}
        return {queue: offset for queue, offset in wanted.items() if self._group.reset(queue, offset)}

    def can_handle(self, message: Message) -> bool:
        return message.topic in self._group.handlings

    async def consume_directly(self, message: Message) -> DirectResult:
        handling = self._group.handlings[message.topic]
        return await consume_directly(
            handling.call,
            message,
            is_async=handling.is_async,
            is_orderly=self._group.plan.orderly,
            commits_by_hand=handling.commits_by_hand,
            judged=self._group.plan.judged,
            workers=self._world.workers,
            clock=self._world.clock,
        )
