"""Delayed: a group's failed messages that wait at brokers for their next try, and when that comes. Reads only.

A failed message lies in the queue of its delay level until that is over. Each level's part that still waits is known by
the time at which it was stored; all groups' messages lie there, so a bound stands on how many are looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from framework.admin import browse
from framework.admin.browse import Scan, Span
from framework.admin.cluster import Admin
from framework.admin.findings import tried
from framework.admin.groups import reason_of
from framework.admin.traces import REAL_TOPIC
from framework.errors import FrameworkError
from framework.model.delay_levels import ladder
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import SCHEDULE_TOPIC, retry_topic
from framework.reading.pulls import EVERYTHING
from framework.wire import exchanges
from framework.wire.exchanges import Exchange
from framework.wire.requests.admin import BrokerConfigRequest

SCANNED_MAX = 5_000
SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class Waiting:
    """One message, and when its delay is over by its broker's ladder."""

    message: Message
    due_ms: int


@dataclass(slots=True)
class WaitingRetries:
    """What waits, the soonest first."""

    found: list[Waiting] = field(default_factory=list)
    count: int = 0
    scanned: int = 0
    is_cut: bool = False
    """More was there than is looked at."""
    unknown: str = ""


def waiting(admin: Admin, group: str, now_ms: int) -> WaitingRetries:
    """The group's name is the cluster's."""
    found = WaitingRetries()
    route = tried(lambda: admin.route(SCHEDULE_TOPIC))
    if isinstance(route, FrameworkError) or route is None or not route.readable:
        reason = reason_of(route) if isinstance(route, FrameworkError) else "no broker lets delayed messages be read"
        found.unknown = reason
        return found
    queues = route.readable
    ladders = tried(lambda: _ladders(admin, {queue.broker for queue in queues}))
    if isinstance(ladders, FrameworkError):
        found.unknown = reason_of(ladders)
        return found
    delays_ms = {
        queue: ladders[queue.broker][queue.number] for queue in queues if queue.number < len(ladders[queue.broker])
    }
    spans = tried(lambda: [_span(admin, queue, now_ms - delay_ms) for queue, delay_ms in delays_ms.items()])
    if isinstance(spans, FrameworkError):
        found.unknown = reason_of(spans)
        return found
    scan, wanted = Scan(), retry_topic(group)
    for message in browse.messages(admin, EVERYTHING, spans, scan):
        found.scanned += 1
        if found.scanned > SCANNED_MAX:
            found.is_cut = True
            break
        if message.properties.get(REAL_TOPIC) == wanted:
            found.count += 1
            due_ms = message.stored_ms + delays_ms[message.queue]
            found.found.append(Waiting(message, due_ms))
    found.found = sorted(found.found, key=lambda each: each.due_ms)[:SHOWN_MAX]
    return found


def _ladders(admin: Admin, brokers: Collection[str]) -> dict[str, tuple[int, ...]]:
    """How long each broker's levels last: they are its setting."""
    asked = Exchange(BrokerConfigRequest(), lambda answer: ladder(_setting(answer.body, "messageDelayLevel")))
    return {place.name: admin.ask(place, asked) for place in admin.brokers() if place.name in brokers}


def _setting(body: bytes, name: str) -> str:
    pairs = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return next((text.strip() for each, _, text in pairs if each.strip() == name), "")


def _span(admin: Admin, queue: MessageQueue, since_ms: int) -> Span:
    """What was stored since then: it waits still."""
    end = admin.ask_master(queue, exchanges.max_offset(queue))
    since = admin.ask_master(queue, exchanges.offset_at(queue, since_ms)) if end else 0
    return Span(queue, min(since, end), end)
