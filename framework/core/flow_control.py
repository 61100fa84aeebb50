"""Flow control: whether an owned queue may pull now, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass

from framework.core import limits
from framework.core.window import Window


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """One owned queue's bounds; the process's budget stands beside them."""

    messages_max: int = limits.CACHED_MESSAGES_MAX
    bytes_max: int = limits.CACHED_BYTES_MAX
    span_max: int = limits.SPAN_MAX


def reason_to_wait(window: Window, bounds: FlowLimits, has_budget: bool) -> str | None:
    """None to go on, else the reason: "count", "bytes", "span" or "budget".

    A queue that holds nothing is never held by the budget alone when others hold it all for long: its pull waits for
    room, and room comes with every settled chunk.
    """
    if window.messages > bounds.messages_max:
        return "count"
    if window.bytes > bounds.bytes_max:
        return "bytes"
    if window.span > bounds.span_max and window.messages:
        return "span"
    return None if has_budget else "budget"
