"""ConsistencyCheck: finds out whether the members of a group are of one kind, and says so once per change.

It asks rarely: when members have come or gone, or our own topics have changed, and then nothing more for a while. It
asks only members that were not asked before, or had other topics than ours. What answers mean, `core/consistency.py`
says. Of a thousand members that start together each has its own turn by its place in the list, and pauses between
questions, so that brokers get no more of them a second from a large group than from one of a hundred.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence

import structlog

from framework.client.inquiries import Inquiries
from framework.core.consistency import OTHER_ORDER, Profile, asked, differences, repeated_ids
from framework.errors import FrameworkError
from framework.ports import Clock
from framework.wire.bodies.running import IS_ORDERLY

log = structlog.get_logger()

LOOK_SECONDS = 5.0  # at what we know already; nobody is asked for it
SETTLED_SECONDS = 5.0
ALONE_SECONDS = 300.0  # nobody notifies broadcasting members, nor do they list each other
AGAIN_SECONDS = 30.0  # after a broker could not be asked, or a member did not answer, and while something is wrong
TRIES_MAX = 3
ASKED_MAX = 16
PAUSE_SECONDS = 1.0  # between two questions of one member: each is three messages to the broker
TURN_SECONDS = 0.01  # from one member's turn to the next one's
PAUSE_A_MEMBER_SECONDS = 0.005  # the same in a group of more than two hundred
# A connection that broke without a word stays listed until the broker misses its heartbeats, for 120 s.
STALE_SECONDS = 150.0


class ConsistencyCheck:
    """One per group."""

    def __init__(
        self,
        group: str,
        topic: str,
        member: str,
        own: Callable[[], Profile],
        brokers: Inquiries,
        clock: Clock,
        *,
        members: Callable[[], Sequence[str]],
    ) -> None:
        """`members` are sorted."""
        self.group = group
        self._topic, self._member, self._own = topic, member, own
        self._brokers, self._clock, self._members = brokers, clock, members
        self._profiles: dict[str, Profile] = {}
        """What members said that are there still. A process does not change its kind; its topics it may."""
        self._silent: dict[str, int] = {}
        """Members that did not answer -> how often."""
        self._repeated: dict[str, float] = {}
        """Ids that several connections had -> since when."""
        self.found: dict[str, tuple[str, ...]] = {}
        """What is wrong -> the members that differ from us."""

    @property
    def is_mixed_up(self) -> bool:
        """Members that lock queues and members that do not cannot be in one group: order is kept by nobody."""
        return OTHER_ORDER in self.found

    async def run(self) -> None:
        seen: tuple[list[str], dict[str, str]] = [], self._own().wanted
        due = changed_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now, here = self._clock.monotonic(), (list(self._members()), self._own().wanted)
            if here != seen:
                seen, changed_at, due = here, now, now + SETTLED_SECONDS
            if now >= due and now >= changed_at + SETTLED_SECONDS:
                due = now + (await self._look())

    async def _look(self) -> float:
        """Ask whoever is new or differs; when to look again although nothing has changed."""
        around = self._members()
        await asyncio.sleep(TURN_SECONDS * bisect_left(around, self._member))
        try:
            ids = await self._brokers.listed(self.group, self._topic)
        except FrameworkError as error:
            log.debug("consistency check failed", group=self.group, reason=str(error))
            return AGAIN_SECONDS
        chosen = asked(self._member, ids, ASKED_MAX)
        self._profiles = {member: self._profiles[member] for member in chosen if member in self._profiles}
        self._silent = {member: self._silent[member] for member in chosen if member in self._silent}
        has_asked = False
        for member in chosen:
            known = self._profiles.get(member)
            is_wanted = known is None or known.wanted != self._own().wanted
            if is_wanted and self._silent.get(member, 0) < TRIES_MAX:
                if has_asked:
                    await asyncio.sleep(max(PAUSE_SECONDS, PAUSE_A_MEMBER_SECONDS * len(ids)))
                has_asked = True
                await self._ask(member)
        now = self._clock.monotonic()
        self._repeated = {each: self._repeated.get(each, now) for each in repeated_ids(ids)}
        shared = [each for each, since in self._repeated.items() if now - since >= STALE_SECONDS]
        self._tell(differences(self._own(), self._profiles, shared))
        is_open = any(tries < TRIES_MAX and member not in self._profiles for member, tries in self._silent.items())
        if is_open or self.found:
            return AGAIN_SECONDS  # one question, to one broker: whoever mends it should not wait for long
        return STALE_SECONDS if len(shared) < len(self._repeated) else ALONE_SECONDS

    async def _ask(self, member: str) -> None:
        try:
            info = await self._brokers.running_info(self.group, self._topic, member)
        except FrameworkError as error:
            # It has gone, is only just starting, or is of a kind that does not answer.
            self._silent[member] = self._silent.get(member, 0) + 1
            log.debug("member not answering", group=self.group, member=member, reason=str(error))
            return
        self._silent.pop(member, None)
        orderly = info.properties.get(IS_ORDERLY)
        self._profiles[member] = Profile(
            None if orderly is None else orderly.lower() == "true",
            info.properties.get("messageModel"),
            {each.topic: each.expression for each in info.subscriptions},
        )

    def _tell(self, found: dict[str, tuple[str, ...]]) -> None:
        for problem, members in found.items():
            if self.found.get(problem) != members:
                log.warning(
                    "group inconsistent", group=self.group, us=self._member, others=list(members), reason=problem
                )
        for problem in self.found:
            if problem not in found:
                log.info("group consistent again", group=self.group, reason=problem)
        self.found = found

    def __repr__(self) -> str:
        return f"<ConsistencyCheck {self.group}: {', '.join(self.found) or 'all of one kind'}>"
