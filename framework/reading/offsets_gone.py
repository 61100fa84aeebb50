"""OffsetsGone: messages that were asked for and are not there. Whoever reads decides what that means."""

from __future__ import annotations

from framework.errors import FrameworkError
from framework.model.queue import MessageQueue


class OffsetsGone(FrameworkError):
    """Offsets `begin` to `end` - 1 of a queue: taken by retention, deleted with the topic, or lost with a log."""

    id = "FA-C012"

    def __init__(
        self, queue: MessageQueue, begin: int, end: int, why: str = "retention, a deleted topic or a lost log"
    ) -> None:
        super().__init__(f"{queue}: offsets {begin} to {end - 1} are gone ({why})")
        self.queue = queue
        self.begin = begin
        self.end = end
        self.why = why

    def __reduce__(self) -> tuple[type[OffsetsGone], tuple[MessageQueue, int, int, str]]:
        return OffsetsGone, (self.queue, self.begin, self.end, self.why)
