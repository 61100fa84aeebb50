"""Health: whether a group does its work, from what brokers keep and what its members say. The worst comes first.

A lag of nothing proves little: what failed waits at the brokers for its next try, or lies among the dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from framework.admin import facts
from framework.admin.cluster import Admin
from framework.admin.delayed import WaitingRetries
from framework.admin.facts import LetterFacts
from framework.admin.findings import tried
from framework.admin.groups import GroupMember
from framework.admin.positions import Positions
from framework.errors import FrameworkError
from framework.wire.bodies.running import HANGING, OLDEST_MS, RETRIES_WAITING, RUNNING, SUCCESS_AGO_MS

GroupState: TypeAlias = Literal[
    "unknown",
    "held",
    "failing",
    "hanging",
    "no member",
    "paused",
    "dead letters",
    "retrying",
    "behind",
    "up to date",
    "nobody",
]
STATES: tuple[GroupState, ...] = get_args(GroupState)
"""The worst first."""


@dataclass(frozen=True, slots=True)
class GroupWork:
    """What the members that answered say of their work, together. None: none of them says it; those of Java do not."""

    failed_in_an_hour: int = 0
    failed_a_second: float = 0.0
    handled_a_second: float = 0.0
    success_ago_s: float | None = None
    running: int | None = None
    oldest_s: float | None = None
    """For how long the oldest handler has run."""
    hanging: int = 0
    """Handlers that were given up and do not end."""
    held_retries: int = 0
    """Failed messages that wait within members."""
    is_told: bool = False
    """Whether a member answered."""


def work_of(members: list[GroupMember]) -> GroupWork:
    infos = [each.info for each in members if each.info is not None]
    statuses = [status for info in infos for status in info.statuses.values()]
    agos, running, ages, hanging, held = (
        [number for each in members if (number := each.number(name)) is not None]
        for name in (SUCCESS_AGO_MS, RUNNING, OLDEST_MS, HANGING, RETRIES_WAITING)
    )
    return GroupWork(
        failed_in_an_hour=sum(each.consume_failed_count for each in statuses),
        failed_a_second=sum(each.consume_failed_tps for each in statuses),
        handled_a_second=sum(each.consume_ok_tps for each in statuses),
        success_ago_s=min(agos) / 1000 if agos else None,
        running=sum(running) if running else None,
        oldest_s=max(ages) / 1000 if ages else None,
        hanging=sum(hanging),
        held_retries=sum(held),
        is_told=bool(infos),
    )


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """One group at one moment."""

    positions: Positions
    letters: LetterFacts
    retries: WaitingRetries
    """Those of all groups."""
    work: GroupWork
    LONG_S: ClassVar = 60.0
    """A handler that runs for longer is said."""

    @property
    def silent(self) -> list[str]:
        """Members that are connected and do not answer."""
        return [each.client_id for each in self.positions.members.members if each.silence]

    @property
    def waiting(self) -> int | None:
        """Messages that wait for their next try, at brokers and in members; None where brokers do not say."""
        at_brokers = self.retries.of(self.positions.group)
        return None if at_brokers is None else at_brokers + self.work.held_retries

    @property
    def is_failing(self) -> bool:
        """Messages fail and none succeeds: in the last minute, while they wait for a retry, or since the start."""
        work = self.work
        if work.handled_a_second or not work.failed_in_an_hour:
            return False
        never = work.running is not None and work.success_ago_s is None
        return work.failed_a_second > 0 or bool(self.waiting) or never

    @property
    def is_paused(self) -> bool:
        """Every member is, as far as they say it."""
        members = self.positions.members
        return bool(members.members) and sum(map(len, members.paused.values())) == len(members.members)

    @property
    def state(self) -> GroupState:
        found, waits = self.positions, self.positions.lag or self.waiting
        if found.is_nobody:
            return "nobody"
        if found.unserved:
            return "unknown"
        if found.members.held:
            return "held"
        if self.is_failing:
            return "failing"
        if self.work.hanging:
            return "hanging"
        if waits and not found.members.members:
            return "no member"
        if self.is_paused:
            return "paused"
        if found.lag is None:
            return "unknown"
        if self.letters.lately:
            return "dead letters"
        if self.waiting:
            return "retrying"
        return "behind" if found.lag else "up to date"


def look(admin: Admin, found: Positions, retries: WaitingRetries, now_ms: int) -> GroupHealth:
    """Its members were asked already."""
    return GroupHealth(found, letters_of(admin, found.group, now_ms), retries, work_of(found.members.members))


def letters_of(admin: Admin, group: str, now_ms: int) -> LetterFacts:
    """A group's dead letters, as far as they can be asked for."""
    found = tried(lambda: facts.letters(admin, group, now_ms - facts.LATELY_MS))
    return LetterFacts() if isinstance(found, FrameworkError) else found
