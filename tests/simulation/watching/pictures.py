"""Pictures: what a snapshot of an application says of one group, as a fact. It reads a snapshot, and nothing else."""

from __future__ import annotations

from framework.model.snapshot import GroupSnapshot
from tests.simulation.facts import Pictured

EVENTS = (
    "handled",
    "retried",
    "dead_lettered",
    "dropped",
    "late",
    "repeats",
    "failed",
    "raised",
    "nothing",
    "timed_out",
)


def pictured(at: float, who: str, group: GroupSnapshot, not_ready: tuple[str, ...]) -> Pictured:
    """One group of one process."""
    return Pictured(
        at,
        who,
        group.own_name,
        {event: getattr(group, event) for event in EVENTS},
        {
            "running": group.running,
            "milliseconds of the oldest": group.oldest_ms or 0,
            "retries waiting": group.retries_waiting,
            "copies not sent": group.cannot_send_back,
            "lag": group.lag or 0,
            "messages": sum(queue.messages for queue in group.queues),
            "bytes": sum(queue.bytes for queue in group.queues),
            "running by queue": sum(queue.running for queue in group.queues),
        },
        {queue.queue: queue.committable for queue in group.queues},
        group.queues_gained - group.queues_lost,
        not_ready,
    )
