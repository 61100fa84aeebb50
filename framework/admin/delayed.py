"""Delayed: failed messages that wait at brokers for their next try, and when that comes. Reads only.

A failed message lies in the queue of its delay level until that is over. Each level's part that still waits is known by
the time at which it was stored; all groups' messages lie there, so a bound stands on how many are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from framework.admin import browse
from framework.admin.browse import Scan, Span
from framework.admin.cluster import BROKER_CONFIG, Admin
from framework.admin.groups import reason_of
from framework.admin.traces import REAL_TOPIC
from framework.errors import FrameworkError
from framework.model.delay_levels import ladder
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX, SCHEDULE_TOPIC, retry_topic
from framework.reading.pulls import EVERYTHING
from framework.wire import exchanges

SCANNED_MAX = 5_000
BYTES_MAX = 64 * 1024 * 1024
SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class Waiting:
    """One message, and when its delay is over by its broker's ladder."""

    message: Message
    due_ms: int


@dataclass(slots=True)
class WaitingRetries:
    """What waits, of all groups; of one of them also which, the soonest first."""

    group: str = ""
    """That one, as the cluster calls it."""
    counts: Counter[str] = field(default_factory=Counter)
    """By group."""
    found: list[Waiting] = field(default_factory=list)
    scanned: int = 0
    is_cut: bool = False
    """More was there than is looked at: each count is the least."""
    unknown: str = ""

    def of(self, group: str) -> int | None:
        """The least that waits; None where brokers do not say."""
        return None if self.unknown else self.counts[group]

    @property
    def count(self) -> int:
        return self.counts[self.group]


def waiting(admin: Admin, group: str = "") -> WaitingRetries:
    """At all brokers. `found` is the group's, whose name is the cluster's."""
    found = WaitingRetries(group)
    try:
        route = admin.route(SCHEDULE_TOPIC)
        if route is None or not route.readable:
            found.unknown = "no broker lets delayed messages be read"
            return found
        ladders = _ladders(admin, {queue.broker for queue in route.readable})
        delays_ms = {
            queue: ladders[queue.broker][queue.number]
            for queue in route.readable
            if queue.number < len(ladders.get(queue.broker, ()))
        }
        clocks_ms = {place.name: admin.now_ms(place.name, place.master) for place in admin.brokers() if place.master}
        spans = [_span(admin, queue, clocks_ms[queue.broker] - delay_ms) for queue, delay_ms in delays_ms.items()]
        _count(admin, spans, delays_ms, found)
    except FrameworkError as error:
        found.unknown = reason_of(error)
    return found


def _count(admin: Admin, spans: list[Span], delays_ms: Mapping[MessageQueue, int], found: WaitingRetries) -> None:
    size = 0
    for message in browse.messages(admin, EVERYTHING, spans, Scan()):
        if found.scanned == SCANNED_MAX or size > BYTES_MAX:
            found.is_cut = True
            break
        found.scanned += 1
        size += len(message.body)
        topic = message.properties.get(REAL_TOPIC, "")
        if topic.startswith(RETRY_PREFIX):
            found.counts[topic.removeprefix(RETRY_PREFIX)] += 1
        if found.group and topic == retry_topic(found.group):
            found.found.append(Waiting(message, message.stored_ms + delays_ms[message.queue]))
    found.found = sorted(found.found, key=lambda each: each.due_ms)[:SHOWN_MAX]


def _ladders(admin: Admin, brokers: Collection[str]) -> dict[str, tuple[int, ...]]:
    """How long each broker's levels last: they are its setting."""
    return {
        place.name: ladder(admin.ask(place, BROKER_CONFIG).get("messageDelayLevel", ""))
        for place in admin.brokers()
        if place.name in brokers
    }


def _span(admin: Admin, queue: MessageQueue, since_ms: int) -> Span:
    """What was stored since then: it waits still."""
    end = admin.ask_master(queue, exchanges.max_offset(queue))
    since = admin.ask_master(queue, exchanges.offset_at(queue, since_ms)) if end else 0
    return Span(queue, min(since, end), end)
