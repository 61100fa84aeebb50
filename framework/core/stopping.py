"""How long a stop takes at most: what a supervisor's patience is held against.

Law: a longer drain and a slower cluster make it longer by just as much, and nothing makes it shorter.
"""

from __future__ import annotations

from framework.core import limits

_LEAVING_REQUESTS = 3
"""Offsets are confirmed, locks are released, groups are left: each waits for a broker that does not answer."""


def after_the_drain_ms(request_timeout_ms: int) -> int:
    """What may follow or precede the drain, all together."""
    return limits.TURNS_MS + limits.LATE_MS + _LEAVING_REQUESTS * request_timeout_ms + limits.EXIT_MS


def stop_ms(drain_ms: int, request_timeout_ms: int) -> int:
    """From the signal to the process's end."""
    return drain_ms + after_the_drain_ms(request_timeout_ms)
