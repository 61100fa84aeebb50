"""Browse: a topic's messages in the order in which they were stored, without joining a group or storing an offset."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event

from framework.admin.cluster import Admin
from framework.admin.moments import Moment
from framework.errors import nearest
from framework.mistakes import NotInCluster
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.reading.pulls import EVERYTHING, Filter, Pulls
from framework.wire import exchanges, stored

POLL_SECONDS = 0.5
"""Between two looks at queues that had nothing new."""


@dataclass(slots=True)
class Scan:
    """What was looked at so far."""

    scanned: int = 0
    """Offsets that were passed, also those that a filter of the broker's left out."""
    read_bytes: int = 0
    """What brokers sent for them."""
    gone: list[str] = field(default_factory=list)
    """Ranges that were asked for and are not there any more."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of one queue's offsets; the end is not in it."""

    queue: MessageQueue
    begin: int
    end: int


LISTED = "; `framework-app topics` lists those that there are"


def readable(admin: Admin, topic: str) -> Sequence[MessageQueue]:
    """The topic's queues. ConfigurationError for an unknown topic, with the nearest name."""
    route = admin.route(topic)
    if route is None or not route.readable:
        name = admin.unwrapped(topic)
        known = [admin.unwrapped(each) for each in admin.topics()]
        raise NotInCluster(f"no broker has a topic {name!r} that can be read{nearest(name, known) or LISTED}")
    return route.readable


def spans(admin: Admin, topic: str, begin: Moment) -> list[Span]:
    """From the moment to the end, queue by queue, as the ends are now. ConfigurationError for an unknown topic."""
    found = []
    for queue in readable(admin, topic):
        end = admin.ask_master(queue, exchanges.max_offset(queue))
        found.append(Span(queue, _offset(admin, queue, begin, end), end))
    return found


def _offset(admin: Admin, queue: MessageQueue, begin: Moment, end: int) -> int:
    if begin.kind == "latest":
        return end
    low = admin.ask_master(queue, exchanges.min_offset(queue))
    match begin.kind:
        case "earliest":
            return low
        case "last":
            return max(low, end - begin.value)
        case "time":
            return max(low, min(admin.ask_master(queue, exchanges.offset_at(queue, begin.value)), end))
        case _:
            return max(low, min(begin.value, end))


def messages(admin: Admin, wanted: Filter, ranges: Sequence[Span], scan: Scan) -> Iterator[Message]:
    """What lies in the ranges, all queues together, oldest first by the brokers' store times."""
    runs = [_run(admin, wanted, span, scan) for span in ranges if span.begin < span.end]
    return heapq.merge(*runs, key=lambda message: (message.stored_ms, message.queue, message.queue_offset))


def at(admin: Admin, queue: MessageQueue, offset: int) -> Message | None:
    """The message that lies there."""
    found = messages(admin, EVERYTHING, [Span(queue, offset, offset + 1)], Scan())
    return next((each for each in found if each.queue_offset == offset), None)


def follow(admin: Admin, wanted: Filter, ranges: Sequence[Span], scan: Scan) -> Iterator[Message | None]:
    """What is stored behind the ranges, as it comes, for ever; None after a look that found nothing."""
    at: dict[MessageQueue, int] = {span.queue: span.end for span in ranges}
    while True:
        fresh = [Span(queue, at[queue], end) for queue, end in _ends(admin, at).items() if end > at[queue]]
        yield from messages(admin, wanted, fresh, scan)
        at.update({span.queue: span.end for span in fresh})
        if not fresh:
            yield None
            Event().wait(POLL_SECONDS)


def _ends(admin: Admin, at: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    return {queue: admin.ask_master(queue, exchanges.max_offset(queue)) for queue in at}


def _run(admin: Admin, wanted: Filter, span: Span, scan: Scan) -> Iterator[Message]:
    pulls = Pulls(admin.reach, admin.settings, span.queue, wanted)
    offset = looked_at = span.begin
    try:
        while offset < span.end:
            pulled = pulls.pull(offset, span.end, ahead=True)
            scan.read_bytes += len(pulled.data)
            for message in stored.decode(pulled.data, span.queue, offset_delta=pulled.offset_delta):
                # A tag's hash is all that a broker looks at.
                if message.queue_offset < span.end and (not wanted.tag_set or message.tags in wanted.tag_set):
                    scan.scanned += message.queue_offset + 1 - looked_at  # whoever asks may stop at any message
                    looked_at = message.queue_offset + 1
                    yield message
            following = min(pulled.next_offset, span.end)
            scan.scanned += following - looked_at
            looked_at = following
            if pulled.gone is not None:
                scan.gone.append(f"{span.queue}: offsets {pulled.gone[0]} to {pulled.gone[1] - 1}")
            offset = following
    finally:
        pulls.close()
