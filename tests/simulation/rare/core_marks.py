"""What the core reaches, asked from outside: there are no marks in code that only decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from unittest.mock import patch

from framework.core.group_members import GroupMembers
from framework.core.member_lists import MemberList, MemberLists
from framework.core.ranges import ProgressRecord, within_limit
from framework.services.offsets import progress

CAME_BACK = "a member came back to its seat"
KEPT = "a member was kept that a young broker did not list"
FOLDED = "ranges were folded for their size"


@contextmanager
def core_watched(reached: Callable[[str], None]) -> Iterator[None]:
    """Have `reached` told of these, as the code tells of its marks."""
    counted, take = GroupMembers.counted, MemberLists.take

    @wraps(counted)
    def counting(self: GroupMembers, listed: Sequence[str], now_ms: int) -> list[str]:
        if not self._absent.keys().isdisjoint(listed):
            reached(CAME_BACK)
        return counted(self, listed, now_ms)

    @wraps(take)
    def taking(self: MemberLists, lists: Iterable[MemberList], now_ms: int) -> None:
        take(self, lists, now_ms)
        if any(page.kept and not page.is_silent for page in self._pages.values()):
            reached(KEPT)

    @wraps(within_limit)
    def limiting(record: ProgressRecord) -> tuple[ProgressRecord, bytes]:
        kept, content = within_limit(record)
        if kept is not record:
            reached(FOLDED)
        return kept, content

    with (
        patch.object(GroupMembers, "counted", counting),
        patch.object(MemberLists, "take", taking),
        patch.object(progress, "within_limit", limiting),
    ):
        yield
