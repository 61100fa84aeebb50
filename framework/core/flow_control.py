"""Flow control: whether an owned queue may pull now, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass, replace

from framework.core import limits
from framework.core.window import Window


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """One owned queue's bounds; the process's budget stands beside them."""

    messages_max: int = limits.CACHED_MESSAGES_MAX
    bytes_max: int = limits.CACHED_BYTES_MAX
    span_max: int = limits.SPAN_MAX
    topic_messages_max: int | None = None
    """Of a topic's owned queues together, beside each queue's own bound."""
    topic_bytes_max: int | None = None

    @property
    def is_shared(self) -> bool:
        return self.topic_messages_max is not None or self.topic_bytes_max is not None

    def of_one(self, queues: int) -> FlowLimits:
        """The bounds of one of so many owned queues: its even share of the topic's, at least one message, and never
        more than a queue's own. Java lets the last topic's share overwrite the bound of every topic's queues.
        """
        return replace(
            self,
            messages_max=_share(self.messages_max, self.topic_messages_max, queues),
            bytes_max=_share(self.bytes_max, self.topic_bytes_max, queues),
        )


def _share(own: int, of_topic: int | None, queues: int) -> int:
    return own if of_topic is None else min(own, max(1, of_topic // max(1, queues)))


def reason_to_wait(window: Window, bounds: FlowLimits, has_budget: bool) -> str | None:
    """None to go on, else the reason: "count", "bytes", "span" or "budget".

    A queue that holds nothing is never held by the budget alone when others hold it all for long: its pull waits for
    room, and room comes with every settled chunk.
    """
    if window.messages > bounds.messages_max:
        return "count"
    if window.bytes > bounds.bytes_max:
        return "bytes"
    # From the first to the last of them, as the Java client counts: a span of 2,000 has room for 2,001 offsets.
    if window.span - 1 > bounds.span_max and window.messages and not window.is_kept:
        return "span"
    return None if has_budget else "budget"
