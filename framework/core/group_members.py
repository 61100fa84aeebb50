"""GroupMembers: who counts as a member while lists come and go, and whose coming and going moves queues too often.

A member with a name of its own keeps its seat for a while when it is not listed: started again within that time it
finds its queues as they were, and nobody else has moved any. For how long stands in the name, which is the one thing
that all members see alike. Pure; one a topic of a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from framework.core import limits
from framework.model.durations import to_ms, to_text

_NAMED = re.compile(r"[^@]+@stays-([0-9][0-9a-z.]*)")
_OURS = re.compile(rf"{_NAMED.pattern}|[^@]+@[0-9]+#f[0-9a-f]{{11}}")
"""Client ids of this framework's members (`runtime/joining.py`). Those of the Java client end with nanoseconds."""


def member_named(instance: str, grace_ms: int) -> str:
    """The client id of a process that keeps its name from start to start."""
    return f"{instance}@stays-{to_text(grace_ms)}"


def grace_of(member: str) -> int:
    """For how long its seat is kept; 0 for a member without a name, and never longer than the settings allow."""
    match = _NAMED.fullmatch(member)
    if match is None:
        return 0
    try:
        return min(to_ms(match[1]), limits.GRACE_MAX_MS)
    except ValueError:
        return 0


def key_of(member: str) -> str:
    """By what a member is known again that comes and goes: its name, or else its machine."""
    return member if _NAMED.fullmatch(member) else member.partition("@")[0]


def hold_ms(strikes: int, ages_ms: Sequence[int]) -> int:
    """For how long somebody stays out of its group who was here `strikes` times for a short while.

    `ages_ms`: how long ago it came or went. With the join, and the end that may follow it, there must not be more
    changes in a minute than the group is to bear.
    """
    if not strikes:
        return 0
    quarantine_ms = min(limits.QUARANTINE_MS << min(strikes - 1, 16), limits.QUARANTINE_MAX_MS)
    recent = sorted((age for age in ages_ms if age < limits.CHANGES_WINDOW_MS), reverse=True)
    too_many = len(recent) - (limits.CHANGES_MAX - 2)
    return max(quarantine_ms, limits.CHANGES_WINDOW_MS - recent[too_many - 1]) if too_many > 0 else quarantine_ms


class GroupMembers:
    """What one member has seen of the others."""

    def __init__(self, adopted: Mapping[str, int] | None = None, listed: Iterable[str] = ()) -> None:
        """`adopted`: seats that are kept, by what somebody said who was here before us, and until when. `listed`: who
        was there when that was asked. One of them that leaves before our first look has its seat kept like any other.
        """
        self._absent = dict(adopted or {})
        self._since: dict[str, int | None] = dict.fromkeys((*self._absent, *listed))
        """Those who count, and since when; None where they were here before us."""
        self._changes: dict[str, list[int]] = {}
        self._strikes: dict[str, list[int]] = {}
        self._has_looked = False
        self._newest_ms = 0
        """When somebody came last, as far as we saw: we ourselves at our first look."""

    def counted(self, listed: Sequence[str], now_ms: int) -> list[str]:
        """Who counts, now that these are listed: they, and those whose seat is kept; sorted."""
        present = frozenset(listed)
        for member in sorted(self._since):
            if member in present:
                if self._absent.pop(member, None) is not None:
                    self._newest_ms = now_ms
            elif now_ms >= self._absent.setdefault(member, now_ms + grace_of(member)):
                self._went(member, now_ms)
        if not self._has_looked:
            self._newest_ms = now_ms
        for member in sorted(present.difference(self._since)):
            self._newest_ms = now_ms
            self._since[member] = now_ms if self._has_looked else None
            if self._has_looked:
                self._change(member, now_ms)
        self._has_looked = True
        return sorted(self._since)

    def _went(self, member: str, now_ms: int) -> None:
        del self._absent[member]
        since = self._since.pop(member)
        self._change(member, now_ms)
        if since is not None and now_ms - since < limits.SHORT_LIFE_MS + grace_of(member):
            self._strikes.setdefault(key_of(member), []).append(now_ms)

    def _change(self, member: str, now_ms: int) -> None:
        key = key_of(member)
        # Put last: of more than are kept, the one that changed longest ago is forgotten, with its short lives.
        changes = self._changes[key] = self._changes.pop(key, [])
        changes.append(now_ms)
        del changes[: -limits.CHANGES_MAX]
        if len(self._changes) > limits.FLAPPERS_MAX:
            oldest = next(iter(self._changes))
            del self._changes[oldest]
            self._strikes.pop(oldest, None)

    def all_expect(self, gone_ms: int) -> bool:
        """Whether all who count expect a broker back that went away at that instant. Those do who knew it; nobody who
        came since does, since no name server tells of it, nor does a member that is not one of ours.
        """
        if not all(_OURS.fullmatch(member) for member in self._since):
            return False
        return self._newest_ms + limits.KNOWN_MS <= gone_ms

    @property
    def next_ms(self) -> int | None:
        """When the next seat that is kept will be given up."""
        return min(self._absent.values(), default=None)

    def absent(self, now_ms: int) -> dict[str, int]:
        """Seats that are kept -> for how much longer."""
        return {member: until - now_ms for member, until in sorted(self._absent.items()) if until > now_ms}

    @property
    def present(self) -> tuple[str, ...]:
        """Members that were listed at the last look and whose seat is kept when they are not; sorted."""
        return tuple(sorted(member for member in self._since if member not in self._absent and grace_of(member)))

    def of_another_topic(self) -> GroupMembers:
        """For a topic that nobody has looked at: it begins with the seats that are kept here."""
        return GroupMembers(self._absent)

    def flaps(self, now_ms: int) -> dict[str, tuple[int, ...]]:
        """Who was here for a short while -> how often lately, and then how long ago it came and went."""
        found: dict[str, tuple[int, ...]] = {}
        for key, ends in sorted(self._strikes.items()):
            strikes = sum(now_ms - end < limits.FORGIVEN_MS for end in ends)
            if strikes:
                found[key] = (strikes, *(now_ms - at for at in self._changes.get(key, ())))
        return found
