"""`progress: topic`: a topic of the group's own keeps progress above a gap, on the brokers of its queues.

It works with any broker, and a new owner on any machine reads it there. Each flush is one message, named by its queue;
the last one of the highest epoch is valid. An epoch is the offset that the broker gave to the first message of an
acquisition: never twice the same, and higher each time.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from framework import marks
from framework.core import limits
from framework.errors import Refused, Superseded
from framework.hooks.markers import hookimpl
from framework.model.contracts import KeepsProgress, Kept, ProgressMeans, ProgressStore
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import progress_topic

EPOCH = "PROGRESS_EPOCH"
QUEUES = 4
"""On each broker; as many as a topic gets that a send creates."""
AT_ONCE = 32
NO_TOPIC = 17
NO_SUCH_QUEUE = 29


class TopicStore:
    name = "topic"

    def open(self, means: ProgressMeans) -> KeepsProgress:
        return _TopicProgress(means)


class _TopicProgress:
    def __init__(self, means: ProgressMeans) -> None:
        self._means, self._topic = means, progress_topic(means.group)
        self._looked: dict[MessageQueue, int] = {}
        """Place -> up to where its records were looked at for acquisitions by others."""
        self._newest: dict[str, int] = {}
        """Queue -> the highest epoch that was seen there."""

    async def read(self, queue: MessageQueue) -> Kept | None:
        # Asked also where no route names it: another member may have made it a moment ago.
        place, key = self._place(queue, await self._means.queues(self._topic)), str(queue)
        try:
            end = await self._means.end(place)
        except Refused as error:
            if error.code != NO_TOPIC:
                raise
            return None
        oldest, at = max(0, end - limits.RECORDS_READ_MAX), end
        best: Kept | None = None
        # Back to where the best one's acquisition began: a former owner that is late writes behind the present one.
        while at > max(oldest, best.epoch if best is not None else 0):
            begin = max(oldest, at - AT_ONCE)
            for message in reversed(await self._between(place, begin, at)):
                if key not in message.keys:
                    continue
                epoch = _epoch_of(message)
                if best is None or epoch > best.epoch:
                    best = Kept(epoch, message.body)
            at = begin
        return best

    async def _between(self, place: MessageQueue, begin: int, end: int) -> list[Message]:
        """The messages of [begin, end): a broker may hand out fewer at once than it is asked for."""
        found: list[Message] = []
        while begin < end:
            some = [each for each in await self._means.peek(place, begin, end - begin) if each.queue_offset < end]
            if not some:
                break  # retention has come as far as here
            found += some
            begin = some[-1].queue_offset + 1
        return found

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        if not marks.safeguard("each acquisition has an epoch of its own"):
            await self._send(queue, content, {EPOCH: "0"})
            return 0
        place, epoch = await self._send(queue, content, {})
        self._looked.setdefault(place, epoch + 1)
        return epoch

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        place, end = await self._send(queue, content, {EPOCH: str(epoch)})
        await self._look(place, end)
        if self._newest.get(str(queue), -1) > epoch:
            raise Superseded(f"progress of {queue}: another member has taken the queue since")

    async def _look(self, place: MessageQueue, end: int) -> None:
        """Hear who has acquired what among the records up to this one. Each is read once, and none where nobody else
        writes.
        """
        begin = max(self._looked.get(place, end), end - limits.RECORDS_READ_MAX)
        for message in await self._between(place, begin, end):
            if EPOCH not in message.properties:
                for key in message.keys:
                    # Two looks at a place may read its records at once, and either may end last.
                    self._newest[key] = max(self._newest.get(key, -1), message.queue_offset)
        self._looked[place] = max(self._looked.get(place, 0), end + 1)

    async def _send(self, queue: MessageQueue, content: bytes, properties: dict[str, str]) -> tuple[MessageQueue, int]:
        message = Message(self._topic, content, keys=(str(queue),), properties=properties)
        place = self._place(queue, await self._means.queues(self._topic))
        try:
            return place, await self._means.send(message, place)
        except Refused as error:
            if error.code != NO_SUCH_QUEUE:
                raise
            # It was made by this very send, on a broker that gives a topic fewer queues than most.
            place = self._place(queue, await self._means.queues(self._topic))
            return place, await self._means.send(message, place)

    def _place(self, queue: MessageQueue, queues: Sequence[MessageQueue]) -> MessageQueue:
        """Always the same one for a queue, on its own broker: where that is away, so is what would be repeated."""
        count = sum(place.broker == queue.broker for place in queues) or QUEUES
        return MessageQueue(self._topic, queue.broker, zlib.crc32(str(queue).encode()) % min(count, QUEUES))


def _epoch_of(message: Message) -> int:
    text = message.properties.get(EPOCH)
    if text is None:
        return message.queue_offset
    return int(text) if text.isdecimal() and len(text) < 19 else -1


@hookimpl
def register_progress_stores() -> list[ProgressStore]:
    return [TopicStore()]
