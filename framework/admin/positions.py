"""Positions: how far a group is in each queue, how much lies before it, how old that is, and who has the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from framework.admin.cluster import Admin
from framework.admin.groups import GroupView, reason_of, view
from framework.errors import BrokerUnreachable, ProtocolError, Refused
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.reading.pulls import EVERYTHING, Pulls
from framework.wire import exchanges, stored
from framework.wire.bodies.progress import ConsumeStats
from framework.wire.exchanges import Exchange, body_of
from framework.wire.requests.admin import ConsumeStatsRequest

T = TypeVar("T")


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

    @property
    def lag(self) -> int | None:
        """All of it; None where a queue's is not known. A member that does not answer hides owners only."""
        lags = [row.lag for row in self.rows]
        is_known = self.unknown.keys() <= {each.client_id for each in self.members.members} and None not in lags
        return None if not is_known else sum(lag for lag in lags if lag is not None)

    @property
    def is_nobody(self) -> bool:
        """Whether the group has neither a member nor an offset."""
        return not self.rows and not self.members.members and not self.unknown

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
    found.unknown = {**answers.unreachable, **found.members.unknown}
    told = {queue: each for stats in answers.found.values() for queue, each in stats.offsets.items()}
    ends: dict[MessageQueue, int | None] = {queue: each.broker_offset for queue, each in told.items()}
    offsets: dict[MessageQueue, int | None] = {queue: each.consumer_offset for queue, each in told.items()}
    for queue in _without_offset(admin, found, told, topic):
        ends[queue] = _answer(admin, queue, exchanges.max_offset(queue), found.unknown)
        offsets[queue] = None
    for queue, offset in offsets.items():
        if not offset:  # brokers say 0 also where the group has stored nothing
            offsets[queue] = _answer(admin, queue, exchanges.stored_offset(group, queue), found.unknown)
    owners, clocks = found.members.owners, dict[str, int | None]()
    for queue in sorted(ends):
        offset, end = offsets[queue], ends[queue]
        behind_s = 0.0 if end == 0 else None
        if end and offset is not None:
            behind_s = 0.0 if end <= offset else _age_s(admin, group, queue, (offset, end), clocks, found.unknown)
        found.rows.append(QueuePosition(queue, offset, end, behind_s, owners.get(queue)))
    return found


def _stats(group: str, topic: str) -> Exchange[ConsumeStats]:
    return Exchange(ConsumeStatsRequest(consumer_group=group, topic=topic or None), body_of(ConsumeStats))


def _without_offset(admin: Admin, found: Positions, told: Iterable[MessageQueue], topic: str) -> list[MessageQueue]:
    """Queues of what the group subscribes to in which it has stored nothing yet: brokers leave those out."""
    known = set(told)
    topics = {topic} if topic else set(found.members.subscriptions) - {retry_topic(found.group)}
    missing: list[MessageQueue] = []
    for name in sorted(topics):
        route = admin.route(name)
        missing += [] if route is None else [queue for queue in route.readable if queue not in known]
    return missing


def _answer(admin: Admin, queue: MessageQueue, exchange: Exchange[T], unknown: dict[str, str]) -> T | None:
    try:
        return admin.ask_master(queue, exchange)
    except (BrokerUnreachable, ProtocolError, Refused) as error:
        unknown[str(queue)] = reason_of(error)
        return None


def _age_s(
    admin: Admin,
    group: str,
    queue: MessageQueue,
    between: tuple[int, int],
    clocks: dict[str, int | None],
    unknown: dict[str, str],
) -> float | None:
    """How old the message at this offset is by its broker's clock, or the first one behind it that is still there."""
    offset, end = between
    # As the group itself: it exists, since it has an offset here, so that the pull makes none.
    pulls = Pulls(admin.reach, replace(admin.settings, group=group), queue, EVERYTHING)
    try:
        pulled = pulls.pull(offset, offset + 1)
        if pulled.gone is not None and pulled.min_offset < end:
            pulled = pulls.pull(pulled.min_offset, pulled.min_offset + 1)
        first = next(iter(stored.decode(pulled.data, queue, offset_delta=pulled.offset_delta)), None)
        if first is None:
            return None
        if queue.broker not in clocks:
            clocks[queue.broker] = admin.now_ms(queue.broker, admin.reach.address(queue.topic, queue.broker))
    except (BrokerUnreachable, ProtocolError, Refused) as error:
        unknown[str(queue)] = reason_of(error)
        clocks.setdefault(queue.broker, None)
        return None
    finally:
        pulls.close()
    now_ms = clocks[queue.broker]
    return None if now_ms is None else max(now_ms - first.stored_ms, 0) / 1000
