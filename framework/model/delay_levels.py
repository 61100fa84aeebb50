"""The ladder of delays that stock brokers know, and how wishes are mapped onto it."""

from __future__ import annotations

from bisect import bisect_left

from framework.model.durations import to_ms

# messageDelayLevel of every stock broker: level 1 is the first.
DELAYS_MS = tuple(
    seconds * 1000
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
LEVEL_MAX = len(DELAYS_MS)
FIRST_RETRY_LEVEL = 3  # a message's first retry waits 10 s; each further one takes the next level
TO_DEAD_LETTERS = -1
BY_ATTEMPT = 0  # the broker picks 3 + reconsumeTimes


def level_for(delay_ms: int) -> int:
    """The shortest level that is not shorter than the wish; above the ladder its last one."""
    return min(bisect_left(DELAYS_MS, delay_ms) + 1, LEVEL_MAX)


def ladder(text: str) -> tuple[int, ...]:
    """A broker's own, out of what it calls `messageDelayLevel`; the stock one where that cannot be read."""
    try:
        return tuple(to_ms(word) for word in text.split()) or DELAYS_MS
    except ValueError:
        return DELAYS_MS
