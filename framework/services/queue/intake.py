"""Intake: what a pull's answer passes through before its queue takes it in, as parts with one face.

Each part changes the answer, holds it up, or hands it on in several pieces. A queue has the parts that its group needs:
skipping first, then the group's rate, and last what had ended above a gap; so a rate is kept by the messages that are
wanted, and a piece is compared with what had ended when its time has come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import structlog

from framework.core.chunk import Chunk
from framework.core.skipping import Skipping
from framework.core.statistics import Histogram
from framework.errors import FrameworkError
from framework.model.pulled import Found
from framework.model.queue import MessageQueue
from framework.model.snapshot import ExampleSnapshot
from framework.ports import Clock
from framework.services.clocks import Ages

log = structlog.get_logger()

Further: TypeAlias = Callable[[Found, int], Awaitable[bool]]
"""Hands on what was found from an offset on. False: it was not taken in, and nothing more of the answer is wanted."""


class Part(Protocol):
    """One of the parts."""

    @property
    def is_waiting(self) -> bool:
        """An answer is held up here."""
        ...

    @property
    def is_open(self) -> bool:
        """Answers pass as they are. Where all parts are open, none of them is asked to `take`."""
        ...

    async def take(self, found: Found, begin: int, further: Further) -> bool: ...


class Skips:
    """Cuts off what the group does not want to handle; logged on entering and on leaving. One per owned queue.

    Before a message is skipped for its age, its broker is asked what time it is there.
    """

    is_waiting = is_open = False

    def __init__(self, skipping: Skipping, group: str, queue: MessageQueue, ages: Ages) -> None:
        self._skipping, self._ages, self._broker = skipping, ages, queue.broker
        self._place = {"group": group, "queue": str(queue)}
        self._skipped = 0
        """Since messages began to be skipped; 0 while none are."""

    async def take(self, found: Found, begin: int, further: Further) -> bool:
        cut = self._skipping.cut(found, begin, await self._time_for(found))
        if cut is None:
            if self._skipped:
                log.info("skipping ended", **self._place, offset=begin, skipped=self._skipped)
                self._skipped = 0
            return await further(found, begin)
        if not self._skipped:
            log.warning("skipping started", **self._place, offset=begin, reason=cut.reason)
        self._skipped += cut.count
        log.debug("messages skipped", **self._place, begin=begin, end=begin + cut.count, reason=cut.reason)
        return await further(cut.found, begin)

    async def _time_for(self, found: Found) -> int | None:
        if self._skipping.rules.older_than_ms is None:
            return None
        now_ms = self._ages.now_ms(self._broker)
        if now_ms is not None and not self._skipping.is_old(found, now_ms):
            return now_ms  # as nearly always
        return await self._ages.asked_ms(self._broker)


TRACE_PARENT = "traceparent"
_TRACE_AT, _TRACE_PARTS = 1, 4


def show_example(times: Histogram, place: int, seconds: float, chunk: Chunk, clock: Clock) -> None:
    """The last message that a worker began in this chunk, where that class has had none for a while."""
    now_ms, index = clock.now_ms(), min(chunk.next, chunk.count) - 1
    if not times.wants_example(place, now_ms) or not 0 <= index < len(chunk.messages):
        return
    message = chunk.messages[index]
    try:
        message_id, parts = message.message_id, message.properties.get(TRACE_PARENT, "").split("-")
    except FrameworkError:
        return  # its properties cannot be read, which its handler finds out
    trace_id = parts[_TRACE_AT] if len(parts) == _TRACE_PARTS else ""
    times.show(place, ExampleSnapshot(trace_id, message_id, seconds, now_ms))
