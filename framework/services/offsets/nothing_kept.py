"""NothingKept: stands for the progress of a group that keeps none, and of its queues, so that nobody asks whether."""

from __future__ import annotations

from typing import Literal

from framework.client.fences import Fence
from framework.core.window import Window
from framework.model.pulled import Found
from framework.model.queue import MessageQueue
from framework.net.wakeup import Wakeup
from framework.services.queue.intake import Further


class NothingKept:
    """Of all groups and queues: it has no state."""

    awaited = 0
    is_waiting = False
    passing = None
    fence = Fence()
    """No commit carries an epoch, and none is refused."""

    def start(self) -> None: ...
    def of(self, queue: MessageQueue) -> NothingKept:
        return self

    async def handed_over(self) -> None: ...
    async def begin(self, offset: int, stored: int | None) -> Literal[True]:
        return True

    def begun(self, window: Window) -> None: ...
    def is_moved(self, window: Window) -> Literal[False]:
        return False

    async def start_over(self, window: Window) -> Literal[True]:
        return True

    async def take(self, found: Found, begin: int, further: Further) -> bool:
        return await further(found, begin)

    async def flush(self, window: Window, bell: Wakeup) -> None: ...
    async def release(self, window: Window) -> Literal[False]:
        return False


NOTHING_KEPT = NothingKept()
