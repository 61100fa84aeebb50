"""Reached: where queues were when they were left since their broker was away. It may come back with older offsets, and
who gets a queue again goes on where it was. Pure; one a group.
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.model.queue import MessageQueue


class Reached:
    """Below these offsets all was done here, and nobody else can have gone on since."""

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def note(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset

    def take(self, queue: MessageQueue) -> int | None:
        """What is known of a queue that is taken, or moved by somebody; from then on nothing is."""
        return self._offsets.pop(queue, None)

    def offered(self, queues: Iterable[MessageQueue], own: Iterable[MessageQueue]) -> None:
        """These can be had now: whoever has what is not our own knows better."""
        if self._offsets:
            for queue in set(queues).difference(own) & self._offsets.keys():
                del self._offsets[queue]
