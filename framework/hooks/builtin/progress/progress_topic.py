"""`progress: topic`: a topic of the group's own keeps progress above a gap, on the brokers of its queues.

It works with any broker, and a new owner on any machine reads it there. Each flush is one message, named by its queue;
the last one of the highest epoch is valid. An epoch is the offset that the broker gave to the first message of an
acquisition: never twice the same, and higher each time.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence

from framework import marks
from framework.core import limits
from framework.errors import RecordDamaged, Refused, Superseded
from framework.hooks.markers import hookimpl
from framework.model.contracts import KeepsProgress, Kept, ProgressMeans, ProgressStore
from framework.model.message import KEYS, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import progress_topic

EPOCH = "PROGRESS_EPOCH"
QUEUES = 4
"""On each broker; as many as a topic gets that a send creates."""
AT_ONCE = 32
PULLS_MAX = limits.RECORDS_READ_MAX // 8
"""A stock broker hands out eight messages from its disk; a pull that brings fewer brings larger ones than ours."""
DAMAGED = 1
"""What the built-in broker answers for a record that is damaged; others hand it out."""
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
        """Queue that was taken here -> the highest epoch that was seen. Of others nothing is kept, whoever writes."""

    async def read(self, queue: MessageQueue) -> Kept | None:
        # Asked also where no route names it: another member may have made it a moment ago.
        place, key = self._place(queue, await self._means.queues(self._topic)), str(queue)
        try:
            end = await self._means.end(place)
        except Refused as error:
            if error.code != NO_TOPIC:
                raise
            return None
        look = _Look(self._means, place, {key})
        oldest, at = max(0, end - limits.RECORDS_READ_MAX), end
        best, epoch = None, -1
        # Back to where the best one's acquisition began: a former owner that is late writes behind the present one.
        while at > max(oldest, epoch) and look.left:
            begin = max(oldest, at - AT_ONCE)
            for message in reversed(await look.between(begin, at)):
                if best is None or _epoch_of(message) > epoch:
                    best, epoch = message, _epoch_of(message)
            if look.damaged > epoch:  # it may be of a newer acquisition than what lies below it, and take that back
                raise RecordDamaged(f"progress of {queue}: the record at {place}:{look.damaged} is damaged")
            at = begin
        return None if best is None else Kept(epoch, best.body)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        if not marks.safeguard("each acquisition has an epoch of its own"):
            await self._send(queue, content, {EPOCH: "0"})
            return 0
        place, epoch = await self._send(queue, content, {})
        self._looked.setdefault(place, epoch + 1)
        self._newest.setdefault(str(queue), epoch)
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
        for message in await _Look(self._means, place, self._newest.keys()).between(begin, end):
            if EPOCH not in message.properties:
                key = message.properties[KEYS]
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


class _Look:
    """A look at some records of a place, in a bounded number of pulls. It keeps those of some queues, whatever others
    have written between them.
    """

    def __init__(self, means: ProgressMeans, place: MessageQueue, keys: Collection[str]) -> None:
        self._means, self._place, self._keys = means, place, keys
        self.left = PULLS_MAX
        self.damaged = -1
        """The last record that could not be read."""

    async def between(self, begin: int, end: int) -> list[Message]:
        """Those of [begin, end): a broker may hand out fewer at once than it is asked for."""
        found: list[Message] = []
        is_alone = False
        while begin < end and self.left:
            self.left -= 1
            try:
                some = await self._means.peek(self._place, begin, 1 if is_alone else end - begin)
            except (RecordDamaged, Refused) as error:
                if isinstance(error, Refused) and error.code != DAMAGED:
                    raise
                if is_alone:
                    self.damaged = max(self.damaged, begin)
                    begin += 1
                is_alone = True
                continue
            some = [each for each in some if each.queue_offset < end]
            if not some:
                break  # retention has come as far as here
            # One key each, compared as it is written: a stranger's record may have thousands.
            found += [each for each in some if each.properties.get(KEYS) in self._keys]
            begin = some[-1].queue_offset + 1
        return found


def _epoch_of(message: Message) -> int:
    text = message.properties.get(EPOCH)
    if text is None:
        return message.queue_offset
    return int(text) if text.isdecimal() and len(text) < 19 else -1


@hookimpl
def register_progress_stores() -> list[ProgressStore]:
    return [TopicStore()]
