"""Resets: where a group goes on from. A plan is made first, with what it repeats and what it passes over; then applied.

Brokers from 5.2 on keep a reset themselves and hand it to whoever pulls next, so members may be online. Older ones, and
those of 5.0 and 5.1, ask the members to move, who may refuse; there a reset is made only while nobody is in the group.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from framework.admin import groups
from framework.admin.browse import spans
from framework.admin.cluster import BROKER_CONFIG, Admin
from framework.admin.memory import PendingReset
from framework.admin.moments import Moment
from framework.admin.positions import positions
from framework.errors import BrokerUnreachable, ProtocolError, Refused
from framework.mistakes import ClusterCannot
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX
from framework.net.real_clock import RealClock
from framework.wire import exchanges
from framework.wire.bodies.progress import ResetOffsets
from framework.wire.bodies.route import MASTER
from framework.wire.exchanges import Exchange, body_of
from framework.wire.requests.admin import ResetOffsetRequest

BY_BROKER = "useServerSideResetOffset"
CLOCKS_APART_MS = 60_000
"""As for `skip_older_than`; an answer that takes as long is none."""


@dataclass(frozen=True, slots=True)
class QueueReset:
    """One queue: where the group is, and where it goes on."""

    queue: MessageQueue
    before: int | None
    """None where the group has stored nothing, so that nobody can say what is repeated or passed over."""
    after: int

    @property
    def again(self) -> int | None:
        """So many messages are handled once more."""
        return None if self.before is None else max(self.before - self.after, 0)

    @property
    def passed_over(self) -> int | None:
        """So many are never handled."""
        return None if self.before is None else max(self.after - self.before, 0)


def plan(admin: Admin, group: str, topic: str, to: Moment) -> list[QueueReset]:
    """For each queue of the group's topics, or of one. Names are the cluster's. Changes nothing."""
    groups.check_known(admin, group)  # brokers refuse it otherwise, a queue each
    found = positions(admin, group, topic)  # members know of brokers that name servers forgot
    if unknown := found.without_members():
        told = "; ".join(f"{who}: {why}" for who, why in sorted(unknown.items()))
        raise BrokerUnreachable(f"nothing is reset while a part of the group is not known: {told}")
    offsets = {row.queue: row.offset for row in found.rows if not row.queue.topic.startswith(RETRY_PREFIX)}
    topics = [topic] if topic else sorted({queue.topic for queue in offsets})
    if not topics:
        raise ClusterCannot(f"group {admin.unwrapped(group)} has no offset of any topic; name the topic")
    places = [span for name in topics for span in spans(admin, name, to)]
    if to.is_ago:
        _check_clocks(admin, {span.queue.broker for span in places}, to)
    return [QueueReset(span.queue, offsets.get(span.queue), span.begin) for span in places]


def _check_clocks(admin: Admin, brokers: Collection[str], to: Moment) -> None:
    """Brokers date messages by their own clocks: by one that is not ours, "an hour ago" may pass over all that is new.
    One that does not tell its time is taken for right.
    """
    for place in admin.brokers():
        if place.name not in brokers or MASTER not in place.addresses:
            continue
        try:
            reading = admin.clock(place.name, place.addresses[MASTER])
        except (BrokerUnreachable, ProtocolError, Refused):
            continue
        now_ms = RealClock().now_ms()
        if (apart_ms := max(reading.low_ms - now_ms, now_ms - reading.high_ms)) > CLOCKS_APART_MS:
            raise ClusterCannot(
                f"{to} is counted from this machine's clock, and that of {place.name} is {apart_ms / 1000:,.0f} s away "
                "from it; write a time by the broker's clock, such as 2026-11-22T10:00:00Z, or an offset"
            )


def apply(admin: Admin, group: str, resets: Sequence[QueueReset]) -> list[tuple[QueueReset, str]]:
    """Carry the plan out, and look whether it took; answers the queues where it did not, each with the reason."""
    by_broker = _keep_resets(admin)
    movable = [each for each in resets if by_broker.get(each.queue.broker, False)]
    others = [each for each in resets if each not in movable]
    if others and (members := groups.view(admin, group, with_info=False).members):
        names = ", ".join(sorted({each.queue.broker for each in others}))
        raise ClusterCannot(
            f"{names}: such a broker asks members to move, and {len(members)} are online; stop them, then reset "
            f"(brokers from 5.2 on, with {BY_BROKER}=true, need no stop)"
        )
    failed: list[tuple[QueueReset, str]] = []
    for each in resets:
        try:
            (_by_broker if each in movable else _by_commit)(admin, group, each)
            if each in movable and each.before is not None and each.before != each.after:
                pending = PendingReset(each.before, each.after, RealClock().now_ms())
                admin.memory.has_reset(group, each.queue, pending)
        except (BrokerUnreachable, ProtocolError, Refused) as error:
            failed.append((each, groups.reason_of(error)))
    return failed


def _keep_resets(admin: Admin) -> dict[str, bool]:
    """Broker -> whether it keeps resets itself; one that may not be asked counts as one that does not."""
    found = admin.ask_each(lambda _: BROKER_CONFIG).found
    return {broker: settings.get(BY_BROKER) == "true" for broker, settings in found.items()}


def _by_broker(admin: Admin, group: str, reset: QueueReset) -> None:
    queue = reset.queue
    header = ResetOffsetRequest(
        topic=queue.topic, group=group, timestamp=0, is_force=True, queue_id=queue.number, offset=reset.after
    )
    answer = admin.ask_master(queue, Exchange(header, body_of(ResetOffsets)))
    if answer.offsets.get(queue) != reset.after:
        raise ProtocolError(f"{queue}: reset to {reset.after}, answered {dict(answer.offsets)}", peer=queue.broker)


def _by_commit(admin: Admin, group: str, reset: QueueReset) -> None:
    admin.ask_master(reset.queue, exchanges.commit(group, reset.queue, reset.after))
    kept = admin.ask_master(reset.queue, exchanges.stored_offset(group, reset.queue))
    if kept != reset.after:
        raise ProtocolError(f"{reset.queue}: stored {reset.after}, read back {kept}", peer=reset.queue.broker)
