"""`progress: topic`: a topic of the group's own keeps progress above a gap, on the brokers of its queues.

It works with any broker, and a new owner on any machine reads it there. Each flush is one message, named by its queue;
the last one of the highest epoch is valid. An epoch is the offset that the broker gave to the first message of an
acquisition: never twice the same, and higher each time.

Whoever may write to the topic could say there that messages are done. So where members have a key, a record counts by
its proof (`core/ranges.py`), and one without makes all below it doubtful. What is copied has its proof with it. So a
record says up to where its owner had looked for newer acquisitions, and a reader looks at all that follows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

from framework.core import limits
from framework.core.ranges import decode, is_proof
from framework.errors import FrameworkError, RecordDamaged, Refused, StoreError, Superseded, Unproven
from framework.hooks.markers import hookimpl
from framework.model.contracts import KeepsProgress, Kept, ProgressMeans, ProgressStore
from framework.model.message import KEYS, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import progress_topic

EPOCH, AFTER, PROOF = "PROGRESS_EPOCH", "PROGRESS_AFTER", "PROGRESS_PROOF"
DOUBTS = (
    "was written without this group's key, or under an epoch that nobody was given: by a stranger, an older version, "
    "or a member with other credentials (set progress.key)"
)
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


class _Record(NamedTuple):
    """What stands in a message that counts."""

    epoch: int
    content: bytes
    is_first: bool = False
    """Of its acquisition."""
    after: int | None = None
    """The last offset up to which its owner knew of no newer acquisition; None where it did not say."""

    @property
    def floor(self) -> int:
        return self.epoch if self.after is None else self.after


class _TopicProgress:
    def __init__(self, means: ProgressMeans) -> None:
        self._means, self._topic = means, progress_topic(means.group)
        self._taken: dict[str, MessageQueue] = {}
        """Queues that were taken here, by their names: of others nothing is kept, whoever writes."""
        self._takes = 0
        self._newest: dict[MessageQueue, int] = {}
        """The highest epoch that was seen of each of them."""
        self._seen: dict[MessageQueue, int] = {}
        """Up to which offset no higher one than ours was."""
        self._looked: dict[MessageQueue, int] = {}
        """Place -> up to where its records were looked at for acquisitions by others."""
        self._unseen: dict[MessageQueue, int] = {}
        """Place -> the last offset up to which not all of its records could be looked at."""

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
        best, doubtful = _Record(-1, b""), -1
        # Back to where the best one's owner had looked: a former owner that is late writes behind the present one.
        while at > max(oldest, best.floor):
            begin = max(oldest, at - AT_ONCE)
            some = await look.between(begin, at)
            if look.is_cut:
                break
            for message in reversed(some):
                record = self._believed(queue, message)
                if record is None:
                    doubtful = max(doubtful, message.queue_offset)
                elif record.epoch > best.epoch:
                    best = record
            # Either may be of a newer acquisition than what lies below it, and take that back.
            if look.damaged > best.epoch:
                raise RecordDamaged(f"progress of {queue}: the record at {place}:{look.damaged} is damaged")
            if doubtful > best.epoch:
                raise Unproven(f"progress of {queue}: the record at {place}:{doubtful} {DOUBTS}")
            at = begin
        if best.epoch < 0 or (best.after is not None and best.after + 1 < at):
            return None  # nothing, or not all that follows was seen: a newer acquisition may be among it
        if best.is_first and self._means.proof(b"") and _has_ranges(queue, best.content):
            raise Unproven(f"progress of {queue}: who took it at {place}:{best.epoch} was cut off before its ranges")
        return Kept(best.epoch, best.content)

    def _believed(self, queue: MessageQueue, message: Message) -> _Record | None:
        """A record of ours; None where anybody may have written it, or no acquisition can have had its epoch."""
        text, after_text = message.properties.get(EPOCH), message.properties.get(AFTER)
        epoch = message.queue_offset if text is None else _number_in(text)
        after = None if after_text is None else _number_in(after_text)
        if not 0 <= epoch <= (epoch if after is None else after) <= message.queue_offset:
            return None
        try:
            content = message.body
        except FrameworkError:
            return None
        proof = self._proof(queue, None if text is None else (epoch, after), content)
        if proof and not is_proof(message.properties.get(PROOF, ""), proof):
            return None
        return _Record(epoch, content, text is None, after)

    def _proof(self, queue: MessageQueue, place: tuple[int, int | None] | None, content: bytes) -> str:
        return self._means.proof(json.dumps([*queue, place]).encode() + b"\n" + content)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        place, epoch = await self._send(queue, content, None)
        self._looked[place] = min(self._looked.get(place, epoch + 1), epoch + 1)
        self._taken[str(queue)] = queue
        self._takes += 1
        self._newest[queue] = self._seen[queue] = epoch
        if self._unseen.get(place, -1) > epoch:
            del self._unseen[place]  # the topic was made again
        if self._means.proof(b"") and _has_ranges(queue, content):
            # Sent once more it would be another acquisition's first record, and say what may have been taken back.
            # So ranges count under the epoch alone, which is known only now.
            await self._send(queue, content, epoch)
        return epoch

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        place, end = await self._send(queue, content, epoch)
        seen = await self._look(place, end)
        if self._newest.get(queue, -1) > epoch or self._unseen.get(place, -1) > epoch or end < epoch:
            raise Superseded(f"progress of {queue}: another member has taken the queue since, or may have")
        self._seen[queue] = max(self._seen.get(queue, -1), seen)

    async def _look(self, place: MessageQueue, end: int) -> int:
        """Hear who has acquired what among the records up to this one. Each is read once, and none where nobody else
        writes. The last offset up to which that is known: the rest is for the next look.
        """
        takes, before = self._takes, self._looked.get(place, end)
        begin, look = max(before, end - limits.RECORDS_READ_MAX), _Look(self._means, place, self._taken.keys())
        for message in await look.between(begin, end):
            queue = self._taken[message.properties[KEYS]]
            record = self._believed(queue, message)
            if record is not None and record.is_first:
                # Two looks at a place may read its records at once, and either may end last.
                self._newest[queue] = max(self._newest[queue], record.epoch)
        seen = look.at - 1 if look.is_cut else end
        if begin > before or look.damaged >= 0:
            self._unseen[place] = max(self._unseen.get(place, -1), seen)
        if takes != self._takes:  # it may have passed records of a queue that was taken meanwhile
            return before - 1
        self._looked[place] = max(self._looked.get(place, 0), seen + 1)
        return seen

    async def _send(self, queue: MessageQueue, content: bytes, epoch: int | None) -> tuple[MessageQueue, int]:
        """Its place, and its offset there. The first record of an acquisition says no epoch: it is that offset."""
        after = None if epoch is None else max(self._seen.get(queue, epoch), epoch)
        properties = {} if epoch is None else {EPOCH: str(epoch), AFTER: str(after)}
        if proof := self._proof(queue, None if epoch is None else (epoch, after), content):
            properties[PROOF] = proof
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
        self.at = 0
        """Where it has come to."""
        self.is_cut = False
        """That is not the end of what was asked for."""
        self._left = PULLS_MAX
        self.damaged = -1
        """The last record that could not be read."""

    async def between(self, begin: int, end: int) -> list[Message]:
        """Those of [begin, end): a broker may hand out fewer at once than it is asked for."""
        found: list[Message] = []
        is_alone = False
        while begin < end and self._left:
            self._left -= 1
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
                break  # retention has come as far as here, or what was just stored is not to be read yet
            # One key each, compared as it is written: a stranger's record may have thousands.
            found += [each for each in some if each.properties.get(KEYS) in self._keys]
            begin = some[-1].queue_offset + 1
        self.at, self.is_cut = begin, begin < end
        return found


def _number_in(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else -1


def _has_ranges(queue: MessageQueue, content: bytes) -> bool:
    try:
        return decode(content, queue).finished is not None
    except StoreError:
        return False


@hookimpl
def register_progress_stores() -> list[ProgressStore]:
    return [TopicStore()]
