"""Skipping: messages that a group settles without handling them, because they are too old or too far behind. Pure.

Decided once a pull, from the answer alone: what is cut off its beginning belongs to the range that the answer covers,
like messages that the broker filtered out. Nothing of it is ever in a window.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.core import limits
from framework.model.durations import to_text
from framework.model.message import Message
from framework.model.pulled import Found


@dataclass(frozen=True, slots=True)
class SkipRules:
    """What a group does not want to handle any more. None: no such rule."""

    older_than_ms: int | None = None
    backlog_over: int | None = None


@dataclass(frozen=True, slots=True)
class SkipResult:
    """An answer without its beginning, how many offsets that was, and why."""

    found: Found
    count: int
    reason: str


class Skipping:
    """One a group that has such rules; it knows how much was skipped."""

    __slots__ = ("rules", "total")

    def __init__(self, rules: SkipRules) -> None:
        self.rules = rules
        self.total = 0
        """Offsets, those of messages that a filter would have left out among them."""

    def is_old(self, found: Found, now_ms: int) -> bool:
        """Whether the first message is: those behind it are looked at only then."""
        age_ms = self.rules.older_than_ms
        return age_ms is not None and bool(found.messages) and found.messages[0].stored_ms < now_ms - age_ms

    def cut(self, found: Found, begin: int, now_ms: int | None) -> SkipResult | None:
        """What is left of an answer to a pull from `begin`; None where nothing is skipped. `now_ms` is by the clock
        that dated the messages; without one, none of them is old.
        """
        to, reason = begin, ""
        backlog, age_ms = self.rules.backlog_over, self.rules.older_than_ms
        if backlog is not None and found.max_offset - backlog > to:
            # Perhaps far beyond this answer: what lies between need not even be pulled. Not all of it on one answer's
            # word, though: the next one says again where the end is.
            to = min(found.max_offset - backlog, begin + limits.OFFSET_JUMP_MAX)
            reason = f"more than {backlog} behind the end"
        if age_ms is not None and now_ms is not None and found.next_offset > to:
            young = _first_since(found.messages, now_ms - age_ms, found.next_offset)
            if young > to:
                to, reason = young, f"stored more than {to_text(age_ms)} ago"
        if to == begin:
            return None
        self.total += to - begin
        left = [message for message in found.messages if message.queue_offset >= to]
        following = max(found.next_offset, to)
        return SkipResult(Found(left, found.size, following, found.min_offset, found.max_offset), to - begin, reason)


def _first_since(messages: list[Message], since_ms: int, end: int) -> int:
    """The offset of the first message that was stored at or after an instant; `end` where all are older.

    -1 where the first one is young enough, or there is none: nothing is skipped for that.
    """
    if not messages or messages[0].stored_ms >= since_ms:
        return -1
    # One by one: where the broker's clock was set, a young one may stand between two that look old.
    return next((each.queue_offset for each in messages if each.stored_ms >= since_ms), end)
