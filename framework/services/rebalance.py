"""RebalanceLoop: keeps a group's queues divided among its members.

Members do not vote: each asks the topic's brokers for the same member lists and computes the same answer. It does so at
once on start, on a broker's notice, when a broker knows a new connection, when a paused group resumes, and on a new
route; else every 20 s, with a cheap look at one broker's list every 5 s because notices get lost (in groups of more
than 200 members, whose lists are long, less often). If it fails for one
topic, that is logged, that topic's queues stay as they are, it alone is retried, and nothing else stops. Members that
start together wait for each other: one that is not alone takes its first queues in a quiet moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from framework import marks
from framework.core import limits
from framework.core.assignment import Assignment, AssignmentChange, allocate
from framework.core.backoff import Backoff
from framework.core.group_members import GroupMembers
from framework.core.member_lists import MemberList, MemberLists
from framework.errors import AWAY, FrameworkError, is_said
from framework.hooks.failures import plugin_failure
from framework.model.contracts import AllocationStrategy, Remarks
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX
from framework.net.wakeup import Wakeup
from framework.ports import Chance, Clock
from framework.services.missing_topics import NO_TOPIC, NOT_READABLE, MissingTopics

log = structlog.get_logger()


class KnowsRoutes(Protocol):
    """The calls of the client that rebalancing needs."""

    async def queues(self, topic: str) -> list[MessageQueue]: ...
    def brokers_of(self, topic: str) -> list[str]: ...
    def known(self, topic: str) -> object | None: ...
    def away(self, topic: str) -> Mapping[str, float]: ...
    async def makes_topics(self) -> bool: ...


class KnowsMembers(Protocol):
    async def lists(self, group: str, brokers: Sequence[str], member: str) -> list[MemberList]: ...


class RebalanceLoop:
    """One per group; the only writer of its `Assignment`."""

    def __init__(
        self,
        group: str,
        member: str,
        topics: tuple[str, ...],
        strategy: AllocationStrategy,
        assignment: Assignment,
        *,
        routes: KnowsRoutes,
        brokers: KnowsMembers,
        clock: Clock,
        chance: Chance,
        changed: Callable[[str, AssignmentChange], None],
        offered: Callable[[str, list[MessageQueue]], None],
        not_a_member: Callable[[], None],
        doubled: Callable[[], object] = lambda: None,
    ) -> None:
        self._group, self._member, self._topics, self._strategy = group, member, topics, strategy
        self._assignment = assignment
        self._routes, self._brokers, self._clock, self._chance = routes, brokers, clock, chance
        self._changed, self._offered, self._not_a_member, self._doubled = changed, offered, not_a_member, doubled
        self._bell = Wakeup()
        self._is_wanted = True
        self._wishes = 0
        """How often somebody gave notice, so far."""
        self._is_gathered = False
        """The members that started together with us have been waited for."""
        self._not_before_ms = 0
        self._has_run = False
        self.changes = 0
        """How often the member list was another one than before."""
        self._seen: list[str] = []
        """Who is in the group, by what the first topic's brokers said in the last round."""
        self._lists = MemberLists()
        self._answers: dict[str, MemberList] = {}
        """What brokers have said in this round: each is asked once, however many topics it has."""
        self._looks = 0
        """How often the lists were looked at between rounds."""
        self._group_members: dict[str, GroupMembers] = {}
        """Topic -> who counts: one who was here a moment ago may keep its seat."""
        self._told = GroupMembers()
        """What other members said before we joined; the first topic's, from its first look on."""
        self._complaints: dict[str, str] = {}
        """Topic -> why it could not be balanced; logged on entering and leaving."""
        self._idle: dict[str, None] = {}
        """Topics of which this member owns no queue."""
        self._remarks: dict[str, list[str]] = {}
        """Topic -> what its strategy has to say of the division; logged when it changes."""
        self._again: dict[str, tuple[int, Backoff]] = {}
        """Topics that could not be balanced -> when each is tried again."""
        self.missing = MissingTopics(group, clock, routes.makes_topics)
        """Nothing to divide, and no reason not to be ready."""

    @property
    def is_settled(self) -> bool:
        """Every topic that exists was balanced in the last round."""
        return self.unsettled_because is None

    @property
    def unsettled_because(self) -> str | None:
        """Why that is not so; of several topics the first one's reason."""
        if not self._has_run:
            return "its queues are not divided yet"
        for topic, complaint in self._complaints.items():
            if topic not in self.missing:
                return f"the queues of topic {topic} cannot be divided: {complaint}"
        return None

    @property
    def members(self) -> list[str]:
        """The member list of the last round that succeeded."""
        return self._seen

    def adopt(self, absent: Mapping[str, int], listed: Iterable[str]) -> None:
        """Count members in: the absent for these milliseconds, as others keep their seats; the listed until they go."""
        now_ms = self._clock.monotonic_ms()
        self._told = GroupMembers({member: now_ms + kept_ms for member, kept_ms in absent.items()}, listed)

    def wait(self, wait_ms: int) -> None:
        """Take the first queues no sooner than this: others that start with us may still be on their way."""
        self._not_before_ms = self._clock.monotonic_ms() + wait_ms

    @property
    def _known(self) -> GroupMembers:
        """Of the topic that was looked at first; before that, what other members said."""
        return next(iter(self._group_members.values()), self._told)

    @property
    def absent(self) -> dict[str, int]:
        """Whose seats are kept, and for how much longer."""
        return self._known.absent(self._clock.monotonic_ms())

    @property
    def present(self) -> tuple[str, ...]:
        """Whose seats would be kept, of those that were listed at the last look."""
        return self._known.present

    @property
    def flaps(self) -> dict[str, tuple[int, ...]]:
        """Who came and went: see `GroupMembers.flaps`."""
        return self._known.flaps(self._clock.monotonic_ms())

    def now(self) -> None:
        """A round is wanted at once; several wishes within a second are one round."""
        self._is_wanted = True
        self._wishes += 1
        self._bell.ring()

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """These are the group's topics from now on; what was known of others is forgotten."""
        self._topics = topics
        for topic in [topic for topic in self._complaints if topic not in topics]:
            self.missing.found(topic)
        for known in (self._complaints, self._idle, self._remarks):
            for topic in [topic for topic in known if topic not in topics]:
                del known[topic]
        for topic in [topic for topic in self._group_members if topic not in topics]:
            del self._group_members[topic]
        self._again.clear()
        self.now()

    async def run(self) -> None:
        ended_ms = -limits.REBALANCE_SOON_MS
        due_ms = check_ms = 0
        while True:
            now_ms = self._clock.monotonic_ms()
            earliest_ms = ended_ms + limits.REBALANCE_SOON_MS
            if (self._is_wanted or now_ms >= due_ms) and now_ms >= earliest_ms:
                if self._is_wanted:
                    self._again.clear()  # something has changed: what fails still is asked for at the first pace
                self._is_wanted = False
                await self._round(self._topics)
                self._has_run = True
                ended_ms = self._clock.monotonic_ms()
                due_ms = self._or_seats(ended_ms + self._jittered(limits.REBALANCE_MS))
                check_ms = ended_ms + self._jittered(self._check_pace_ms)
                continue
            again_ms = max(min((due for due, _ in self._again.values()), default=due_ms), earliest_ms)
            if now_ms >= again_ms:
                # With those that are due before the next round may be: one topic's turn must not delay another's.
                soon_ms = now_ms + limits.REBALANCE_SOON_MS
                await self._round([topic for topic, (due, _) in self._again.items() if due < soon_ms])
                ended_ms, due_ms = self._clock.monotonic_ms(), self._or_seats(due_ms)
                continue
            if now_ms >= check_ms:
                check_ms = now_ms + self._jittered(self._check_pace_ms)
                await self._check_members()
                continue
            until_ms = earliest_ms if self._is_wanted else min(due_ms, check_ms, again_ms)
            await self._bell.wait((max(until_ms, now_ms) + 1) / 1000)

    def _or_seats(self, due_ms: int) -> int:
        """Then, or when a seat is no longer kept, or nobody whom a young broker does not list."""
        kept_ms = self._lists.next_ms(self._clock.monotonic_ms())
        seats = [seat.next_ms for seat in self._group_members.values()]
        return min(each for each in (due_ms, kept_ms, *seats) if each is not None)

    def _jittered(self, period_ms: int) -> int:
        """Between 90 and 110 % of the period, so that members do not ask in step."""
        return int(period_ms * (0.9 + 0.2 * self._chance.random()))

    @property
    def _check_pace_ms(self) -> int:
        """In a group of a thousand longer than from round to round, each of which asks all brokers."""
        large = limits.MEMBERS_LARGE
        return limits.MEMBER_CHECK_MS * max(len(self._seen), large) // large

    async def _check_members(self) -> None:
        """Look at one broker's list, at the next one's the next time."""
        brokers = self._routes.brokers_of(self._topics[0])
        if not brokers:
            return  # the round will name it
        self._looks += 1
        broker = brokers[self._looks % len(brokers)]
        for each in await self._brokers.lists(self._group, [broker], self._member):
            if self._lists.differs(each):
                marks.sometimes("a lost notice was found by asking for the member list")
                self._is_wanted = True

    async def _round(self, topics: Sequence[str]) -> None:
        """Each topic once; what fails has its next turn noted."""
        self._answers.clear()
        for topic in topics:
            complaint = await self._balance(topic)
            if topic not in self._topics:
                self._again.pop(topic, None)
                continue
            self._complain(topic, complaint)
            if complaint is None:
                self._again.pop(topic, None)
                continue
            _, backoff = self._again.get(topic) or (0, Backoff(limits.REBALANCE_SOON_MS, limits.REBALANCE_AGAIN_MAX_MS))
            self._again[topic] = self._clock.monotonic_ms() + backoff.failed(self._chance.random()), backoff
            await self.missing.say(topic, complaint)

    async def _balance(self, topic: str) -> str | None:
        """Divide one topic's queues; answers why that was not possible."""
        try:
            queues = await self._routes.queues(topic)
            await marks.stretched("queues are known")
            if not queues:
                self._offered(topic, [])
                return self.missing.note(topic, NO_TOPIC if self._routes.known(topic) is None else NOT_READABLE)
            self.missing.found(topic)
            lists = await self._gathered(topic)
            await marks.stretched("member lists are known")
        except FrameworkError as error:
            return _reason(error)
        if topic not in self._topics:
            return None  # nobody wants it any more, since a moment ago
        answered = [each.listed for each in lists if each.listed is not None]
        if not answered:
            return _reason(next((each.failure for each in lists), "the topic has no broker in its route"))
        listed = self._lists.members([each.broker for each in lists], self._clock.monotonic_ms())
        if not any(self._member in each for each in answered):
            # Others count without us; taking queues now would make two owners. Being asked again is a heartbeat away.
            self._not_a_member()
            return f"the broker does not list this member among {len(answered[0])}"
        if any(each.count(self._member) > 1 for each in answered):
            self._doubled()
        group_members = self._group_members.get(topic)
        if group_members is None:
            group_members = self._known.of_another_topic() if self._group_members else self._told
            self._group_members[topic] = group_members
        members = group_members.counted(listed, self._clock.monotonic_ms())
        away = self._routes.away(topic)
        given_up = {broker for broker, since in away.items() if not group_members.all_expect(int(since * 1000))}
        queues = [queue for queue in queues if queue.broker not in given_up]
        try:
            wanted = allocate(self._strategy, self._member, members, queues)
            remarks = (
                list(self._strategy.remarks(members, sorted(queues))) if isinstance(self._strategy, Remarks) else []
            )
        except BaseException as error:  # noqa: BLE001 - border: a strategy may be a plugin's
            plugin_failure(error)
            return f"allocation {self._strategy.name!r} failed: {type(error).__name__}: {error}"
        if topic == self._topics[0] and listed != self._seen:
            self._seen = listed
            self.changes += 1
        change = self._assignment.put(topic, wanted)
        self._offered(topic, queues)
        if change:
            log.info(
                "assignment changed",
                group=self._group, topic=topic, owned=len(wanted), queues=len(queues), members=len(members),
                gained=[str(queue) for queue in change.gained], lost=[str(queue) for queue in change.lost],
            )  # fmt: skip
            self._changed(topic, change)
        self._name_idleness(topic, wanted, queues, members)
        self._pass_on(topic, remarks)
        return None

    async def _gathered(self, topic: str) -> list[MemberList]:
        """What the topic's brokers say; at a start, what they said in a quiet moment, where others are there.

        Of members that start together each would else take what the list of its own moment says, so that queues were
        handed round from one to the next. The lists are asked for three times at most, the last time when a second is
        over: where hundreds start together, no moment is quiet, and brokers have enough to do.
        """
        if self._is_gathered:
            return await self._ask(topic)
        clock, was_quiet = self._clock, False
        await asyncio.sleep(max(self._not_before_ms - clock.monotonic_ms(), 0) / 1000)
        until_ms, has_asked_again = clock.monotonic_ms() + limits.GATHER_MAX_MS, False
        while True:
            heard = self._wishes
            self._answers.clear()
            lists = await self._ask(topic)
            is_alone = all(len(each.listed or ()) < 2 for each in lists)
            if (heard == self._wishes and (was_quiet or is_alone)) or clock.monotonic_ms() >= until_ms:
                self._is_gathered = any(each.listed is not None for each in lists)
                return lists
            if has_asked_again:
                await asyncio.sleep((until_ms - clock.monotonic_ms()) / 1000)
            has_asked_again, was_quiet = True, False
            while not was_quiet and clock.monotonic_ms() < until_ms:
                heard = self._wishes
                await asyncio.sleep(limits.GATHER_MS / 1000)
                was_quiet = heard == self._wishes

    async def _ask(self, topic: str) -> list[MemberList]:
        """Of each broker of the topic, what it has said in this round."""
        brokers = self._routes.brokers_of(topic)
        missing = [broker for broker in brokers if broker not in self._answers]
        if missing:
            lists = await self._brokers.lists(self._group, missing, self._member)
            self._lists.take(lists, self._clock.monotonic_ms())
            self._answers.update({each.broker: each for each in lists})
        return [self._answers[broker] for broker in brokers]

    def _name_idleness(
        self, topic: str, wanted: list[MessageQueue], queues: list[MessageQueue], members: list[str]
    ) -> None:
        """Say once that there is nothing for this member, also where there never was. Retry topics have few queues."""
        if wanted or topic.startswith(RETRY_PREFIX):
            self._idle.pop(topic, None)
        elif topic not in self._idle:
            self._idle[topic] = None
            log.warning(
                "member without queues", group=self._group, topic=topic, queues=len(queues), members=len(members)
            )

    def _pass_on(self, topic: str, remarks: list[str]) -> None:
        """What a strategy leaves without an owner is no failure, but somebody must hear of it: once a change."""
        before = self._remarks.pop(topic, [])
        if remarks:
            self._remarks[topic] = remarks
        if remarks != before:
            write = log.warning if remarks else log.info
            event = "allocation incomplete" if remarks else "allocation complete"
            write(event, group=self._group, topic=topic, strategy=self._strategy.name, remarks=remarks)

    def _complain(self, topic: str, complaint: str | None) -> None:
        before = self._complaints.pop(topic, None)
        if complaint is not None:
            self._complaints[topic] = complaint
        if complaint is not None and complaint != before:
            if complaint == NO_TOPIC:
                log.info("topic not found yet", group=self._group, topic=topic)
            elif complaint != NOT_READABLE:  # which is said with the way out
                write = log.debug if complaint == AWAY else log.warning
                write("rebalance failed", group=self._group, topic=topic, reason=complaint)
        elif complaint is None and before is not None:
            if before in {NO_TOPIC, NOT_READABLE}:
                log.info("topic found", group=self._group, topic=topic)
            else:
                (log.debug if before == AWAY else log.info)("rebalance recovered", group=self._group, topic=topic)


def _reason(failure: object) -> str:
    return AWAY if is_said(failure) else str(failure)
