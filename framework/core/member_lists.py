"""MemberLists: who is in a group, by what each broker of a topic lists.

Each broker knows those alone who keep a connection to it, and a broker that was restarted knows only who has come back
so far. So whoever is on one broker's list counts, and one whom a broker lacks is kept for a while, where that broker
(or our way to it) is younger than the others' heartbeats. One that was on a list and is gone from it, by the same
connection of ours, has left: brokers hear that at once. Pure; one a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from framework.core import limits
from framework.errors import FrameworkError


@dataclass(frozen=True, slots=True)
class MemberList:
    """What one broker says of the group's members; `listed` is None where it says nothing."""

    broker: str
    listed: tuple[str, ...] | None
    connected_ms: int = 0
    """How old our connection to it is."""
    failure: FrameworkError | None = None
    """Why it says nothing."""


class _Page:
    """One broker's."""

    __slots__ = ("heard_ms", "is_silent", "kept", "kept_until_ms", "listed")

    def __init__(self) -> None:
        self.listed: frozenset[str] = frozenset()
        """The last list."""
        self.kept: frozenset[str] = frozenset()
        """Those of an earlier connection who are not on it again."""
        self.kept_until_ms = 0
        self.heard_ms: int | None = None
        self.is_silent = False


class MemberLists:
    """What one member has heard of the others."""

    def __init__(self) -> None:
        self._pages: dict[str, _Page] = {}

    def take(self, lists: Iterable[MemberList], now_ms: int) -> None:
        """Hear what brokers say."""
        left, is_answered = frozenset[str](), False
        for each in lists:
            left |= self._turn(self._pages.setdefault(each.broker, _Page()), each, now_ms)
            is_answered = is_answered or each.listed is not None
        for page in self._pages.values():
            page.kept -= left
            if page.is_silent:
                page.listed -= left
                if is_answered and now_ms >= page.kept_until_ms:
                    page.listed = page.kept = frozenset()  # the others have long divided without them

    def _turn(self, page: _Page, told: MemberList, now_ms: int) -> frozenset[str]:
        """Take one broker's list; answers those who have left by what it says."""
        if told.listed is None:
            if not page.is_silent:
                page.is_silent = True
                page.kept |= page.listed
                page.kept_until_ms = now_ms + limits.LIST_KEPT_MS
            return frozenset()
        listed, since_ms = frozenset(told.listed), now_ms - told.connected_ms
        is_same = page.heard_ms is None or since_ms <= page.heard_ms
        gone = page.listed - listed
        if not is_same:
            page.kept |= page.listed
            page.kept_until_ms = since_ms + limits.LIST_KEPT_MS
        elif page.is_silent:
            page.kept -= page.listed
        page.kept = page.kept - listed if now_ms < page.kept_until_ms else frozenset()
        page.listed, page.heard_ms, page.is_silent = listed, now_ms, False
        return gone if is_same else frozenset()

    def members(self, brokers: Sequence[str], now_ms: int) -> list[str]:
        """Who counts by what these have said; sorted."""
        found = set[str]()
        for page in self._of(brokers):
            if not page.is_silent:
                found |= page.listed
            if now_ms < page.kept_until_ms:
                found |= page.kept
        return sorted(found)

    def differs(self, told: MemberList) -> bool:
        """Whether this is news."""
        page = self._pages.get(told.broker)
        return told.listed is not None and (page is None or page.listed != frozenset(told.listed))

    def next_ms(self, now_ms: int) -> int | None:
        """When the next of those who are kept will be given up."""
        return min(
            (page.kept_until_ms for page in self._pages.values() if page.kept and page.kept_until_ms > now_ms),
            default=None,
        )

    def _of(self, brokers: Sequence[str]) -> list[_Page]:
        return [page for broker in brokers if (page := self._pages.get(broker)) is not None]
