"""Checks of a group's members against each other: brokers refuse none of these, messages just go missing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from framework.admin.cluster_checks import make_topic
from framework.admin.facts import GroupFacts
from framework.admin.findings import Check, Finding, Said, Unlooked
from framework.admin.groups import GroupMember, reason_of
from framework.core.consistency import Profile, repeated_ids
from framework.errors import FrameworkError
from framework.model.reserved import RETRY_PREFIX
from framework.wire.bodies.heartbeat import BROADCASTING
from framework.wire.bodies.route import PERM_READ, TopicRoute
from framework.wire.bodies.running import IS_ORDERLY, RunningInfo

STRATEGY = "allocateMessageQueueStrategy"
# As Java prints its strategies, by class and address, and what ours are called that divide likewise.
_SAME_AS_JAVA = {
    "AllocateMessageQueueAveragely": "averaging",
    "AllocateMessageQueueAveragelyByCircle": "circle",
    "AllocateMessageQueueConsistentHash": "consistent_hash",
    "AllocateMessageQueueByMachineRoom": "machine_room",
    "AllocateMachineRoomNearby": "nearby",
    "AllocateMessageQueueByConfig": "by_config",
}


def _kinds(facts: GroupFacts) -> Iterator[Said]:
    if isinstance(facts.positions, FrameworkError):
        yield Unlooked("whether its members are alike", facts.shown, reason_of(facts.positions))
        return
    members = facts.positions.members.members
    for each in members:
        if each.info is None:
            yield Unlooked("what the member wants", each.client_id, each.silence or "it was not asked")
    told = {each.client_id: each.info for each in members if each.info is not None}
    for what, remedy, wish in (
        (
            "members subscribe differently: brokers keep the last one's filter for all, so messages are missed",
            "let all members subscribe alike; one that wants something else needs a group of its own",
            _wanted,
        ),
        (
            "members differ in their model: broadcasting ones get all messages, and clustering ones a part",
            "let all members be of one model; the other one needs a group of its own",
            lambda info: info.properties.get("messageModel"),
        ),
        (
            "orderly and concurrent members are in one group: order is kept by nobody",
            "let all members be orderly, or none",
            lambda info: info.properties.get(IS_ORDERLY, "").lower() or None,
        ),
        (
            "members divide queues by different strategies: queues are read twice, or by nobody",
            "set one strategy for all members (allocation here, allocateMessageQueueStrategy in Java)",
            _strategy,
        ),
    ):
        yield from _differing(facts, told, what, remedy, wish)


def _differing(
    facts: GroupFacts,
    told: Mapping[str, RunningInfo],
    what: str,
    remedy: str,
    wish: Callable[[RunningInfo], str | None],
) -> Iterator[Said]:
    by_wish: dict[str, list[str]] = {}
    for member, info in told.items():
        if (wanted := wish(info)) is not None:
            by_wish.setdefault(wanted, []).append(member)
    if len(by_wish) > 1:
        parts = (f"{wanted or 'nothing'}: {', '.join(members[:3])}" for wanted, members in sorted(by_wish.items()))
        yield Finding(f"{what} ({'; '.join(parts)})", facts.shown, remedy, "severe")


def _wanted(info: RunningInfo) -> str:
    wanted = Profile(subscriptions={each.topic: each.expression for each in info.subscriptions}).wanted
    return ", ".join(f"{topic} {text}" for topic, text in sorted(wanted.items()))


def _strategy(info: RunningInfo) -> str | None:
    text = info.properties.get(STRATEGY)
    if text is None:
        return None
    name = text.partition("@")[0].rpartition(".")[2]
    return _SAME_AS_JAVA.get(name, name)


def _shared_ids(facts: GroupFacts) -> Iterator[Said]:
    if isinstance(facts.positions, FrameworkError):
        yield Unlooked("whether client ids are shared", facts.shown, reason_of(facts.positions))
        return
    shared: dict[str, list[str]] = {}
    for listed in facts.positions.members.listed.values():
        for client_id in repeated_ids([each.client_id for each in listed.connections]):
            shared.setdefault(client_id, []).extend(
                each.client_addr for each in listed.connections if each.client_id == client_id
            )
    for client_id, addresses in sorted(shared.items()):
        yield Finding(
            f"several connections have one client id ({', '.join(sorted(set(addresses))[:4])}): its processes take "
            "the same queues, so messages come twice, and others are read by nobody",
            f"{facts.shown}, client id {client_id}",
            "give each process a name of its own (app.instance here, instanceName in Java); if it is one process that "
            "has lost a connection, look again in two minutes",
            "severe",
        )


def _idle(facts: GroupFacts) -> Iterator[Said]:
    """More members than queues, topic by topic: RocketMQ divides each by itself."""
    if isinstance(facts.positions, FrameworkError):
        yield Unlooked("whether each member has a queue", facts.shown, reason_of(facts.positions))
        return
    view = facts.positions.members
    if view.model == BROADCASTING:
        return
    for topic in facts.topics.values():
        if topic.name.startswith(RETRY_PREFIX) or not isinstance(topic.route, TopicRoute):
            continue
        queues = sum(data.read_queue_nums for data in topic.route.queues if data.perm & PERM_READ)
        count = len([each for each in view.members if _reads(each, topic.name)])
        if queues and count > queues:
            yield Finding(
                f"{count} members share {queues} queues: {count - queues} of them get nothing",
                f"{facts.unwrapped(topic.name)}, group {facts.shown}",
                make_topic(
                    facts.cluster, topic.name, -(-count // len(topic.route.queues)), then="or stop some members"
                ),
                "warning",
            )


def _held(facts: GroupFacts) -> Iterator[Said]:
    """Members whose handlers fail all. That they cannot be asked is said above."""
    members = () if isinstance(facts.positions, FrameworkError) else facts.positions.members.held.items()
    for why, those in members:
        yield Finding(
            f"members try one message at a time, since their handlers fail all ({why})",
            f"{facts.shown}, {', '.join(those[:4])}",
            "fix the handler, or roll the deploy back: the first message that succeeds starts all again",
            "severe",
        )


def _reads(member: GroupMember, topic: str) -> bool:
    """One that does not say what it wants counts: the group's topics are what it could want."""
    return member.info is None or any(each.topic == topic for each in member.info.subscriptions)


MEMBER_CHECKS: tuple[Check[GroupFacts], ...] = (
    Check("members are of one kind", _kinds),
    Check("client ids are not shared", _shared_ids),
    Check("each member has a queue", _idle),
    Check("no member is held by its breaker", _held),
)
