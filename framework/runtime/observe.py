"""Live objects to one frozen Snapshot."""

from __future__ import annotations

from framework.core.budget import Budget
from framework.model.snapshot import GroupSnapshot, QueueSnapshot, Snapshot
from framework.runtime.group import ConsumerGroup
from framework.services.pull import PullLoop


def picture(name: str, member: str, groups: list[ConsumerGroup], budget: Budget, *, is_ready: bool) -> Snapshot:
    """The application as it is now."""
    return Snapshot(name, member, is_ready, tuple(map(_group, groups)), budget.used, budget.limit)


def _group(group: ConsumerGroup) -> GroupSnapshot:
    counts = group.counts
    return GroupSnapshot(
        group=group.plan.name,
        topics=tuple(subscription.topic for subscription in group.plan.subscriptions),
        queues=tuple(_queue(pull) for _, pull in sorted(group.owned.items())),
        handled=counts.handled,
        retried=counts.retried,
        dead_lettered=counts.dead_lettered,
        dropped=counts.dropped,
        late=counts.late,
        is_balanced=group.is_balanced,
    )


def _queue(pull: PullLoop) -> QueueSnapshot:
    flow = pull.flow
    window = flow.window if flow.has_position else None
    return QueueSnapshot(
        queue=str(pull.queue),
        state=flow.state.value,
        reason=flow.failure or flow.held_because,
        committable=window.committable if window else -1,
        next_offset=flow.next_offset,
        max_offset=flow.max_offset,
        messages=window.messages if window else 0,
        bytes=window.bytes if window else 0,
        running=pull.running,
    )
