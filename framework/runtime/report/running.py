"""Running: every handler that runs, with its messages, since when, and where it is. No value and no body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from framework.ports import Clock
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.report.stacks import frames_of

HANDLERS_MAX = 500
NOBODY: Mapping[object, int] = {}
MESSAGES_MAX = 5
"""Of a batch, that are named."""


def running_handlers(
    groups: Iterable[ConsumerGroup], clock: Clock, at_its_step: Mapping[object, int] = NOBODY
) -> list[dict[str, Any]]:
    """The oldest first, and so many at most. From the event loop's thread, or while that is blocked: then the task that
    blocks it is `at_its_step`, with the loop's thread, whose frames are its own.
    """
    now = clock.monotonic()
    at_work = [(group, each) for group in list(groups) for each in group.kind.crew.at_work()]
    at_work.sort(key=lambda pair: pair[1].started)
    return [
        {
            "group": group.plan.own_name,
            "topic": each.messages[0].topic,
            "broker": each.queue.broker,
            "queue": each.queue.number,
            "offset": each.messages[0].queue_offset,
            "message_id": each.messages[0].message_id,
            "keys": each.messages[0].keys,
            "attempt": each.messages[0].attempt,
            "messages": len(each.messages),
            "offsets": [message.queue_offset for message in each.messages[:MESSAGES_MAX]],
            "age_ms": max(round((now - each.started) * 1000), 0),
            "is_given_up": each.is_given_up,
            "in": "thread" if isinstance(each.worker, int) else "task",
            "stack": frames_of(at_its_step.get(each.worker, each.worker)),
        }
        for group, each in at_work[:HANDLERS_MAX]
    ]
