"""Reading a queue through an SQL92 condition: what it lets through, and how far was looked.

The store knows tags only, so records are read in portions and their properties held against the condition here. One
pull looks at a bounded number of messages, and does a bounded amount of work; the offset to go on from is past all that
were looked at.
"""

from __future__ import annotations

from framework.broker.store.log import SCAN_MAX, Log, Slice
from framework.broker.store.queues import Queue
from framework.broker.work import Work, asking, reading
from framework.errors import RecordDamaged
from framework.model.queue import MessageQueue
from framework.model.sql92 import Expression
from framework.wire.stored import Records, properties_size

# Read at a time: a condition that takes nearly everything has little read for nothing.
_PORTION = 64
_PORTION_BYTES = 1024 * 1024


def read_matching(
    log: Log, queue: Queue, start: int, condition: Expression, work: Work, *, count_max: int, bytes_max: int
) -> Slice:
    """Messages from `start` on that the condition is TRUE of; an empty slice may still have moved on.

    At least one is looked at, whatever it costs.
    """
    end = min(queue.end, start + SCAN_MAX)
    place = MessageQueue(queue.topic, queue.broker, queue.number)
    found: list[bytes] = []
    offset, room = start, bytes_max
    while offset < end and (work.left > 0 or offset == start):
        try:
            portion = log.read(queue, offset, count_max=min(_PORTION, end - offset), bytes_max=_PORTION_BYTES)
        except RecordDamaged:
            # What is sound before a damaged message is served; the next pull then begins with it.
            if offset > start:
                return Slice(found, offset)
            raise
        work.take(sum([reading(len(record)) for record in portion.records]))
        for record in portion.records:
            records = Records(record, place)
            steps = asking(condition, properties_size(records, 0))
            if steps > work.left and offset > start:
                return Slice(found, offset)
            work.take(steps)
            if condition.matches(records.properties(0)):
                room -= len(record)
                if found and room < 0:
                    return Slice(found, offset)
                found.append(record)
            offset += 1
            if len(found) == count_max:
                return Slice(found, offset)
    return Slice(found, offset)
