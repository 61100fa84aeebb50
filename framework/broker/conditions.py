"""Reading a queue through an SQL92 condition: what it lets through, and how far was looked.

The store knows tags only, so records are read in portions and their properties held against the condition here. One
pull looks at a bounded number of messages and bytes; the offset to go on from is past all that were looked at.
"""

from __future__ import annotations

from framework.broker.store.log import SCAN_MAX, Log, Slice
from framework.broker.store.queues import Queue
from framework.errors import RecordDamaged
from framework.model.queue import MessageQueue
from framework.model.sql92 import Expression
from framework.wire.stored import Records

# Read at a time: a condition that takes nearly everything has little read for nothing.
_PORTION = 64
_PORTION_BYTES = 1024 * 1024
# Messages looked at in one pull times characters of the condition: some milliseconds of the loop.
_CHARACTERS_MAX = SCAN_MAX * 256
_COUNT_MIN = 8
# Looked at in one pull, whatever comes of it: some milliseconds of the loop.
_LOOKED_AT_BYTES_MAX = 8 * 1024 * 1024


def read_matching(
    log: Log, queue: Queue, start: int, condition: Expression, *, count_max: int, bytes_max: int
) -> Slice:
    """Messages from `start` on that the condition is TRUE of; an empty slice may still have moved on."""
    scanned = max(_CHARACTERS_MAX // max(len(condition.text), 256), _COUNT_MIN)
    end = min(queue.end, start + scanned)
    place = MessageQueue(queue.topic, queue.broker, queue.number)
    found: list[bytes] = []
    offset, room, left = start, bytes_max, _LOOKED_AT_BYTES_MAX
    while offset < end and left > 0:
        try:
            portion = log.read(queue, offset, count_max=min(_PORTION, end - offset), bytes_max=_PORTION_BYTES)
        except RecordDamaged:
            # What is sound before a damaged message is served; the next pull then begins with it.
            if offset > start:
                return Slice(found, offset)
            raise
        for record in portion.records:
            if condition.matches(Records(record, place).properties(0)):
                room -= len(record)
                if found and room < 0:
                    return Slice(found, offset)
                found.append(record)
            offset += 1
            left -= len(record)
            if len(found) == count_max:
                return Slice(found, offset)
    return Slice(found, offset)
