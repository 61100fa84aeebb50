"""Positions: how far a group is in each queue, how much lies before it, how old that is, and who has the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from framework.admin.cluster import Admin
from framework.admin.groups import GroupView, reason_of, view
from framework.admin.memory import PendingReset
from framework.errors import BrokerUnreachable, ProtocolError, Refused
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.net.real_clock import RealClock
from framework.wire import exchanges
from framework.wire.bodies.progress import ConsumeStats, ConsumeTimeSpan, QueueTimeSpan
from framework.wire.exchanges import Exchange, body_of
from framework.wire.requests.admin import ConsumeStatsRequest
from framework.wire.requests.query import ConsumeTimeSpanRequest

T = TypeVar("T")

HELD = "members have queues of it, and no name server knows it"
NEVER_OR_LOST = "it never consumed, or its brokers lost its offsets"
NOTHING_STORED = f"no member, and no offset stored: {NEVER_OR_LOST}"


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """One queue of a group. What is not known is None, never 0."""

    queue: MessageQueue
    offset: int | None
    """The next one to handle, as the broker keeps it; None where the group has stored none."""
    end: int | None
    """The offset that the next message gets."""
    lag_s: float | None
    """How long ago the first message that is not handled yet was stored."""
    owner: str | None
    """The client id of the member that has the queue."""
    waits_for_reset: bool = False
    """Somebody reset the offset, and the owner still works where it was before."""
    is_popped: bool = False
    """Members pop of it, so it has no owner."""

    @property
    def lag(self) -> int | None:
        if self.end == 0:
            return 0  # nothing was ever stored in it; members store no offset for that either
        return None if self.offset is None or self.end is None else max(self.end - self.offset, 0)


@dataclass(slots=True)
class Positions:
    """A group's queues, sorted, and what nobody could say."""

    group: str
    rows: list[QueuePosition] = field(default_factory=list)
    members: GroupView = field(default_factory=GroupView)
    unknown: dict[str, str] = field(default_factory=dict)
    """Brokers, members and queues that did not answer, and why."""
    unserved: dict[str, str] = field(default_factory=dict)
    """Of these, brokers: the group has queues there that nobody serves now, or may have."""

    @property
    def lag(self) -> int | None:
        """All of it; None where a queue's is not known, or none is. A member that does not answer hides owners only."""
        lags = [row.lag for row in self.rows]
        if not lags or self.without_members() or None in lags:
            return None
        return sum(lag for lag in lags if lag is not None)

    def without_members(self) -> dict[str, str]:
        """What is unknown of brokers and queues."""
        members = {each.client_id for each in self.members.members}
        return {who: why for who, why in self.unknown.items() if who not in members}

    @property
    def is_nobody(self) -> bool:
        """Whether the group has neither a member nor an offset."""
        return not self.rows and not self.members.members and not self.unknown

    @property
    def blank(self) -> str:
        """Why nothing says how much it has to do, though brokers answer; empty where something does.

        Of a queue without an offset a member may say that it has just begun: it stores one soon.
        """
        members = self.members.members
        bare = [row for row in self.rows if row.offset is None and row.end and str(row.queue) not in self.unknown]
        if bare and not members:
            return f"no member, and no offset stored in {_queues(len(bare))}: {NEVER_OR_LOST}"
        if self.rows or self.without_members():
            return ""
        return "its members subscribe to no topic that is there" if members else NOTHING_STORED

    @property
    def lag_s(self) -> float | None:
        return max((row.lag_s for row in self.rows if row.lag_s is not None), default=None)


def positions(
    admin: Admin, group: str, topic: str = "", *, with_members: bool = True, silent: dict[str, str] | None = None
) -> Positions:
    """Where the group is, in all its topics or in one. Names are the cluster's. `silent` as in `view`."""
    found = Positions(group)
    answers = admin.ask_each(lambda _: _stats(group, topic))
    found.members = view(admin, group, with_info=with_members, silent=silent)
    owners = found.members.owners
    found.unserved = {**answers.unreachable, **_absent(admin, group, owners)}
    found.unknown = {**found.members.unknown, **found.unserved}
    told = {queue: each for stats in answers.found.values() for queue, each in stats.offsets.items()}
    ends: dict[MessageQueue, int | None] = {queue: each.broker_offset for queue, each in told.items()}
    offsets: dict[MessageQueue, int | None] = {queue: each.consumer_offset for queue, each in told.items()}
    for queue in _without_offset(admin, found, told, topic):
        ends[queue] = _answer(admin, queue, exchanges.max_offset(queue), found.unknown)
        offsets[queue] = None
    for queue, offset in offsets.items():
        if not offset:  # brokers say 0 also where the group has stored nothing
            offsets[queue] = _answer(admin, queue, exchanges.stored_offset(group, queue), found.unknown)
    waiting = [queue for queue, end in ends.items() if end and _is_behind(offsets[queue], end)]
    ages = _ages_s(admin, group, waiting, found.unknown)
    seen = {queue for queue in {*owners, *admin.memory.queues(group)} if queue.number >= 0}
    lost = {queue for queue in seen if queue.broker in found.unserved}
    for queue in lost if not topic else [queue for queue in lost if queue.topic == topic]:
        ends.setdefault(queue, None)
        offsets.setdefault(queue, None)
    pending = admin.memory.resets(group, RealClock().now_ms())
    popped = found.members.popped
    for queue in sorted(ends):
        offset, end = offsets[queue], ends[queue]
        behind_s = 0.0 if end == 0 or (offset is not None and end is not None and end <= offset) else ages.get(queue)
        waits = queue in pending and _is_pending(admin, found, queue, pending[queue], offset)
        is_popped = (queue.topic, queue.broker) in popped
        found.rows.append(QueuePosition(queue, offset, end, behind_s, owners.get(queue), waits, is_popped))
    if not topic:
        _remember(admin, found)
    return found


def _is_pending(admin: Admin, found: Positions, queue: MessageQueue, reset: PendingReset, stored: int | None) -> bool:
    """Whether a reset of the queue waits until its owner pulls next. Brokers do not say it, but what they keep and what
    the owner says lie on either side of it.
    """
    owner = next((each.info for each in found.members.members if each.info and queue in each.info.queues), None)
    if owner is None:
        return any(each.silence for each in found.members.members)  # one of these may have it
    if reset.is_taken(stored, owner.queues[queue].commit_offset):
        admin.memory.reset_taken(found.group, queue)
        return False
    return True


def _absent(admin: Admin, group: str, owned: Iterable[MessageQueue]) -> dict[str, str]:
    """Brokers of the group that no name server knows any more, and who says that they were there."""
    there = {place.name for place in admin.brokers()}
    absent = {name: why for name, why in admin.absent(there).items() if admin.memory.may_have_used(group, name)}
    return {**{queue.broker: HELD for queue in owned if queue.broker not in there}, **absent}


def _remember(admin: Admin, found: Positions) -> None:
    """What was never seen whole is not remembered: a broker that is away now would be missed by nobody."""
    if admin.memory.knows(found.group) or not found.unserved:
        admin.memory.saw_group(found.group, (row.queue for row in found.rows))


def _is_behind(offset: int | None, end: int) -> bool:
    return offset is not None and offset < end


def _stats(group: str, topic: str) -> Exchange[ConsumeStats]:
    return Exchange(ConsumeStatsRequest(consumer_group=group, topic=topic or None), body_of(ConsumeStats))


def _without_offset(admin: Admin, found: Positions, told: Iterable[MessageQueue], topic: str) -> list[MessageQueue]:
    """Queues in which the group has stored nothing, which brokers leave out: of what it subscribes to, and those that
    it had before, since a broker that came back may have lost its offsets.
    """
    known = set(told)
    had = {queue for queue in admin.memory.queues(found.group) - known if queue.broker not in found.unserved}
    subscribed = {topic} if topic else set(found.members.subscriptions) - {retry_topic(found.group)}
    missing: list[MessageQueue] = []
    for name in sorted(subscribed | {queue.topic for queue in had if not topic or queue.topic == topic}):
        route = admin.route(name)
        readable = [] if route is None else [queue for queue in route.readable if queue not in known]
        missing += [queue for queue in readable if name in subscribed or queue in had]
    return missing


def _queues(count: int) -> str:
    return f"{count:,} queue{'s' if count > 1 else ''} with messages"


def _answer(admin: Admin, queue: MessageQueue, exchange: Exchange[T], unknown: dict[str, str]) -> T | None:
    try:
        return admin.ask_master(queue, exchange)
    except (BrokerUnreachable, ProtocolError, Refused) as error:
        unknown[str(queue)] = reason_of(error)
        return None


def _ages_s(
    admin: Admin, group: str, queues: Iterable[MessageQueue], unknown: dict[str, str]
) -> dict[MessageQueue, float]:
    """How old the first message is that each of these queues has for the group, or the first one that is still there.

    Asked by what a pull would tell as well: but whoever pulls as a group takes the news of its reset away from it.
    """
    ages: dict[MessageQueue, float] = {}
    wanted = set(queues)
    for topic, broker in sorted({(queue.topic, queue.broker) for queue in wanted}):
        some = [queue for queue in wanted if (queue.topic, queue.broker) == (topic, broker)]
        asking = Exchange(ConsumeTimeSpanRequest(topic=topic, group=group), body_of(ConsumeTimeSpan))
        told = _answer(admin, min(some), asking, unknown)
        for span in () if told is None else told.spans:
            if span.queue in wanted and span.min_timestamp > 0:
                ages[span.queue] = max(_waiting_ms(span), 0) / 1000
    return ages


def _waiting_ms(span: QueueTimeSpan) -> int:
    """Where the message is gone, a broker takes -1 for the time at which it was stored: what it says is its clock."""
    gone_ms = span.delay_ms - 1
    return gone_ms - span.min_timestamp if gone_ms >= span.min_timestamp else span.delay_ms
