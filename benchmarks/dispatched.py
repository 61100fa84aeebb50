"""Waits until a broker has dispatched what it stored.

RocketMQ acknowledges a message when it is in the commit log, and adds it to its queue a little later, in a thread of
its own. Until then the end of the queue is lower than what was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

WAIT_S = 60.0  # a broker dispatches some hundred thousand messages a second


class NotDispatched(Exception):
    """The broker has more or fewer messages than it was sent."""


def wait_dispatched(
    ends: Callable[[], Sequence[int]], messages: int, topic: str, wait_s: float = WAIT_S
) -> Sequence[int]:
    """The ends of a topic's queues, once they add up to `messages`."""
    deadline = time.monotonic() + wait_s
    while sum(found := ends()) != messages:
        if sum(found) > messages or time.monotonic() > deadline:
            raise NotDispatched(f"topic {topic} has {sum(found)} messages, not {messages}")
        time.sleep(0.1)
    return found
