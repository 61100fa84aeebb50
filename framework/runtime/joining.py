"""Joining: what a process with a name asks before it joins its groups, and when its name shows up twice.

Other members are asked by way of a broker, as an administrator asks them; a stock broker can do all of it. A member
that answers wrongly costs at worst a wait, or seats that are kept in vain for a while.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import structlog

from framework import marks
from framework.client.brokers import MEMBERS_MAX
from framework.client.cluster import Cluster
from framework.client.pulling import NO_FILTER
from framework.core import limits
from framework.core.assignment import allocate
from framework.core.consistency import asked
from framework.core.group_members import grace_of, hold_ms, key_of, member_named
from framework.errors import ConfigurationError, FrameworkError, Refused, is_said, shorten
from framework.mistakes import FilterRefused, InstanceTaken
from framework.model.reserved import retry_topic
from framework.model.subscription import BY_TAG, Subscription
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.group.plan import GroupPlan
from framework.runtime.life import Life
from framework.settings.schema import ProcessSettings
from framework.wire.bodies.running import ATTENDANCE, HOST, SESSION, STARTED_AT, RunningInfo
from framework.wire.codes import ResponseCode

log = structlog.get_logger()

ANSWER_S = 2.0  # a process that lives answers in milliseconds; a dead one's connection may take the broker's patience
ASKED_MAX = 3
AGAIN_S = 30.0  # a connection that broke without a word stays listed for up to 120 s
SEATS_MAX = MEMBERS_MAX  # of a group, in one answer


class Joining:
    """One per application."""

    def __init__(self, app: ProcessSettings, world: World) -> None:
        self._app, self._world = app, world
        self.host = f"{world.identity.host} (process {world.identity.process})"
        self.session = f"f{world.chance.token(6).hex()[1:]}"
        """Tells two processes apart that go by one name; and from the Java client's, which are digits alone."""
        self.held: dict[str, int] = {}
        """Groups that are not joined yet, since we came and went too often -> for how long they are not."""
        self._asked_at: dict[str, float] = {}
        self.failure: ConfigurationError | None = None
        """Why the application stops by itself."""
        self.life: Life | None = None
        """The application's."""

    def member(self, worker: int) -> str:
        """How brokers and other members know this process (the client id)."""
        name = self._app.instance
        if not name:
            return f"{self._world.identity.host}@{self._world.identity.process}#{self.session}"
        return member_named(f"{name}.{worker}" if worker else name, self._app.grace)

    @property
    def is_over(self) -> bool:
        """The application's end was asked for: nobody joins any more."""
        return self.life is not None and self.life.asked.is_set()

    @property
    def _is_asking(self) -> bool:
        return bool(self._app.instance) or bool(self._app.protect)

    @property
    def _is_protecting(self) -> bool:
        return bool(self._app.instance) if self._app.protect is None else self._app.protect

    # Before

    async def look_around(
        self, cluster: Cluster, groups: Sequence[ConsumerGroup], member: str
    ) -> tuple[list[ConsumerGroup], list[ConsumerGroup]]:
        """The groups that may be joined at once, and those in `held`. Raises where our name is taken."""
        if self._app.start_jitter:
            wait_ms = int(self._world.chance.random() * self._app.start_jitter)
            await asyncio.sleep(wait_ms / 1000)
            for group in groups:
                if not group.plan.broadcasting:
                    group.rebalance.wait(self._app.start_jitter - wait_ms)
        if not self._is_asking:
            return list(groups), []
        for group in groups:
            if not group.plan.broadcasting:
                await self._look_at(cluster, group, member)
        held = [group for group in groups if group.plan.name in self.held]
        return [group for group in groups if group not in held], held

    async def _look_at(self, cluster: Cluster, group: ConsumerGroup, member: str) -> None:
        name, topic = group.plan.name, group.plan.subscriptions[0].topic
        try:
            listed = await cluster.brokers.members(name, topic)
            await marks.stretched("a member that joins knows the others")
        except FrameworkError:
            return  # nobody is there, or nobody can say
        if grace_of(member) and member in listed:
            other = await self._ask(cluster, name, topic, member)
            if other is not None:
                raise self._name_taken(name, other)
        kept: dict[str, int] = {}
        strikes, ages = 0, tuple[int, ...]()
        for each in asked(member, listed, ASKED_MAX):
            info = await self._ask(cluster, name, topic, each) if each != member else None
            if info is None:
                continue
            seats, flaps = _attendance(info)
            for seat, kept_ms in seats.items():  # as the one says that saw it leave
                kept[seat] = min(kept_ms, kept.get(seat, kept_ms))
            mine = flaps.get(key_of(member), (0,))
            if mine[0] > strikes:
                strikes, ages = mine[0], mine[1:]
        group.rebalance.adopt(
            {seat: kept_ms for seat, kept_ms in kept.items() if seat not in listed},
            [each for each in listed if each != member and grace_of(each)],
        )
        if member in kept:
            return  # its seat is kept, and its locks are for itself
        others = [each for each in listed if each != member]
        if others and group.plan.orderly and grace_of(member):
            await _release_locks(cluster, group, member)
        wait_ms = hold_ms(strikes, ages) if self._is_protecting else 0
        if wait_ms:
            self.held[name] = wait_ms
            log.warning(
                "join held back",
                group=name, member=member, hold_ms=wait_ms, short_lives=strikes,
                queues=await _share(cluster, group, member, others),
                reason="this member came and went too often; the others keep its queues until it has been steady",
            )  # fmt: skip

    async def _ask(self, cluster: Cluster, group: str, topic: str, member: str) -> RunningInfo | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await cluster.inquiries.running_info(group, topic, member)
        except (FrameworkError, TimeoutError) as error:
            log.debug("member not answering", group=group, member=member, reason=str(error))
            return None

    def start_held(self, held: Sequence[ConsumerGroup], join: Callable[[ConsumerGroup], None], tree: TaskTree) -> None:
        for group in held:
            tree.start(self._join_held(group, join), name=f"join {group.plan.name}")

    async def _join_held(self, group: ConsumerGroup, join: Callable[[ConsumerGroup], None]) -> None:
        name = group.plan.name
        await asyncio.sleep(self.held[name] / 1000)
        if self.is_over:
            await asyncio.Event().wait()
        del self.held[name]
        join(group)

    # After

    async def doubled(self, cluster: Cluster, group: ConsumerGroup, member: str) -> None:
        """Our name is listed twice: whoever is not the one that the broker finds by it has to go."""
        name, now = group.plan.name, self._world.clock.monotonic()
        if now - self._asked_at.get(name, -AGAIN_S) < AGAIN_S:
            return
        self._asked_at[name] = now
        other = await self._ask(cluster, name, group.plan.subscriptions[0].topic, member)
        if other is not None and other.properties.get(SESSION, self.session) != self.session:
            self.failure = self._name_taken(name, other)
            assert self.life is not None
            self.life.ask()

    def check(self) -> None:
        """Raise what it stopped for by itself."""
        if self.failure is not None:
            raise self.failure

    def _name_taken(self, group: str, other: RunningInfo) -> ConfigurationError:
        where = other.properties.get(HOST) or other.properties.get("clientIP") or "an unknown machine"
        since = _moment(other.properties.get(STARTED_AT, ""))
        return InstanceTaken(
            f"app.instance: {self._app.instance!r} is already the name of a process on {shorten(where, 200)}, in "
            f"group {group} since {since}; this process is on {self.host}. Give each process its own name, such as "
            "${env:HOSTNAME}"
        )


async def _release_locks(cluster: Cluster, group: ConsumerGroup, member: str) -> None:
    """Unlock what a former life of this name may have left locked: the others have its queues, and wait for that."""
    for topic in (*(each.topic for each in group.plan.subscriptions), retry_topic(group.plan.name)):
        try:
            queues = await cluster.routes.queues(topic)
            for broker in sorted({queue.broker for queue in queues}):
                of_broker = [queue for queue in queues if queue.broker == broker]
                await cluster.brokers.unlock(group.plan.name, member, of_broker)
        except FrameworkError as error:  # they run out by themselves, a minute after they were last renewed
            log.debug("locks not released", group=group.plan.name, topic=topic, reason=str(error))


async def _share(cluster: Cluster, group: ConsumerGroup, member: str, others: Sequence[str]) -> list[str]:
    """The queues that would be this member's."""
    found: list[str] = []
    for each in group.plan.subscriptions:
        try:
            queues = await cluster.routes.queues(each.topic)
            found += map(str, allocate(group.plan.strategy, member, [*others, member], queues))
        except Exception as error:  # noqa: BLE001 - border: a strategy may be a plugin's
            log.debug("share unknown", group=group.plan.name, topic=each.topic, reason=str(error))
    return found


def _moment(text: str) -> str:
    """Unix time in milliseconds, as another process says it, for people to read."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 14):
        return "a time that it does not say"
    return datetime.fromtimestamp(int(text) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def attendance_text(absent: Mapping[str, int], present: Sequence[str], flaps: Mapping[str, tuple[int, ...]]) -> str:
    """What a member tells another one that is about to join."""
    said = {"absent": dict(absent), "present": list(present), "flaps": dict(flaps)}
    return json.dumps(said, separators=(",", ":"))


def _attendance(info: RunningInfo) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """The seats that another member keeps or would keep, and who flaps; nothing where we do not understand it.

    A member looks at the lists once a second at most. Who has left since is on its last list and not on ours.
    """
    try:
        found = json.loads(info.properties.get(ATTENDANCE, "{}"))
        seats = {str(seat): limits.GRACE_MAX_MS for seat in found.get("present", ())}
        seats |= {str(seat): int(kept_ms) for seat, kept_ms in found.get("absent", {}).items()}
        seats = {seat: min(kept_ms, grace_of(seat)) for seat, kept_ms in seats.items()}
        flaps = {str(key): tuple(map(int, numbers)) for key, numbers in found.get("flaps", {}).items() if numbers}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}, {}
    if len(seats) > SEATS_MAX or len(flaps) > 2 * limits.FLAPPERS_MAX:
        return {}, {}
    return {seat: kept_ms for seat, kept_ms in seats.items() if kept_ms > 0}, flaps


async def refuse_filters(plans: Sequence[GroupPlan], cluster: Cluster, member: str, tree: TaskTree) -> None:
    """Raise ConfigurationError with all that brokers say against these groups' conditions in SQL92, before they join.

    Tags need no question. A broker that is away, busy or too old to be asked holds nobody up; should it turn out not to
    filter, its first pull says so, and the group is not ready until it does. Every broker of the topic is asked, where
    Java asks one: they may be configured unlike each other.
    """
    asking = [
        tree.start(_complaint(cluster, broker, plan.name, member, wanted), name=f"filter of {plan.name} at {broker}")
        for plan in plans
        for wanted in plan.subscriptions
        if wanted.kind != BY_TAG
        for broker in sorted(cluster.routes.brokers_of(wanted.topic))
    ]
    found = [complaint for task in asking if (complaint := await task) is not None]
    if found:
        raise FilterRefused("; ".join(found))


async def _complaint(cluster: Cluster, broker: str, group: str, member: str, wanted: Subscription) -> str | None:
    try:
        await cluster.inquiries.check_filter(broker, group, member, wanted)
    except Refused as error:
        if error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            return _named(group, wanted, broker, error.remark)
        # Whatever else goes wrong in a broker has this code, too.
        if error.code == ResponseCode.SYSTEM_ERROR and "not support" in error.remark:
            return _named(group, wanted, broker, error.remark + NO_FILTER)
        log.warning("filter not checked", group=group, topic=wanted.topic, broker=broker, reason=str(error))
    except FrameworkError as error:
        told = log.debug if is_said(error) else log.warning
        told("filter not checked", group=group, topic=wanted.topic, broker=broker, reason=str(error))
    return None


def _named(group: str, wanted: Subscription, broker: str, reason: str) -> str:
    return f"group {group}, topic {wanted.topic}, sql={wanted.expression!r}: broker {broker} refuses it: {reason}"
