"""Hand-over: whether a queue's former owner is still at work on it, as far as its last record and the members tell.

Members do not vote, so a newcomer computes its share a moment before the former owner has stopped. Whoever leaves a
queue in order says so in the store of progress; until then its successor waits, within a limit. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from framework import marks
from framework.core.ranges import ProgressRecord


def awaited(last: ProgressRecord | None, member: str, members: Collection[str]) -> str | None:
    """Whose word to wait for before the queue is begun; None where nobody has to give it.

    A member that is not listed any more is dead, or has left, which it does after it has released everything. What is
    not ours (a Java member's queue, a record of an older version) is never announced.
    """
    if not marks.safeguard("a hand-over is awaited"):
        return None
    if last is None or last.is_released or last.owner == member or last.owner not in members:
        return None
    return last.owner
