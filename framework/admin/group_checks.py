"""Checks of one group: its settings at the brokers, its topics, what waits. Each reads the facts alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from framework.admin.cluster_checks import (
    READ_WRITE,
    at_brokers,
    make_group,
    make_topic,
    mqadmin,
    permit_topic,
    switch_on,
)
from framework.admin.facts import (
    CREATES_GROUPS,
    CREATES_TOPICS,
    KEPT_HOURS,
    PERMISSION,
    SQL,
    BrokerFacts,
    GroupFacts,
    TopicFacts,
)
from framework.admin.findings import Check, Finding, Said, Severity, Unlooked, is_denied
from framework.admin.groups import GroupMember, reason_of
from framework.admin.member_checks import MEMBER_CHECKS
from framework.errors import ConfigurationError, FrameworkError, Refused
from framework.model.reserved import RETRY_PREFIX, dead_letter_topic, progress_topic, retry_topic
from framework.wire.bodies.config import GroupConfig
from framework.wire.bodies.heartbeat import BROADCASTING, BY_SQL, SubscriptionData
from framework.wire.bodies.route import PERM_READ, PERM_WRITE, QueueData, TopicRoute

NEARLY_EXPIRED = 0.75
LONG_S = 900.0
"""A message that is unfinished for longer than Java's consumeTimeout."""


def _known(facts: GroupFacts) -> Iterator[Said]:
    """A group that a broker does not have, and does not make."""
    for broker in facts.cluster.brokers:
        if isinstance(broker.groups, FrameworkError):
            yield Unlooked("whether it has the group", broker.name, reason_of(broker.groups))
        elif facts.name not in broker.groups and broker.is_on(CREATES_GROUPS) is False:
            yield Finding(
                f"a broker does not have the group, and makes none ({CREATES_GROUPS}=false): its messages are not read",
                broker.name,
                make_group(facts.cluster, broker, GroupConfig(name=facts.name)),
                "severe",
            )


def _retry_room(facts: GroupFacts) -> Iterator[Said]:
    for broker in facts.cluster.brokers:
        if isinstance(broker.groups, FrameworkError):
            yield Unlooked("how it keeps the group", broker.name, reason_of(broker.groups))
            continue
        kept = broker.groups.get(facts.name)
        if kept is None:
            continue
        mend = partial(make_group, facts.cluster, broker, kept)
        if kept.retry_queues <= 0:
            yield Finding(
                "retryQueueNums=0: the broker answers that a failed message is kept, and throws it away",
                broker.name,
                mend("-q", "1"),
                "severe",
            )
        if not kept.consume_enable:
            what = "consumeEnable=false: the broker gives the group no message"
            yield Finding(what, broker.name, mend("-s", "true"), "severe")
        if not kept.consume_broadcast_enable and _model(facts) == BROADCASTING:
            yield Finding(
                "consumeBroadcastEnable=false, and members are broadcasting: the broker gives them no message",
                broker.name,
                mend("-d", "true"),
                "severe",
            )


def _model(facts: GroupFacts) -> str | None:
    return None if isinstance(facts.positions, FrameworkError) else facts.positions.members.model


# Topics


def _topics(facts: GroupFacts) -> Iterator[Said]:
    if isinstance(facts.positions, FrameworkError):
        yield Unlooked("which topics it reads", facts.shown, reason_of(facts.positions))
    for topic in facts.topics.values():
        if isinstance(topic.route, FrameworkError):
            if not is_denied(topic.route):  # that is told as an access rule
                yield Unlooked("where the topic is", facts.unwrapped(topic.name), reason_of(topic.route))
        elif topic.route is None:
            yield from _no_route(facts, topic)
        else:
            for data in topic.route.queues:
                yield from _permission(facts, topic, data)


def _no_route(facts: GroupFacts, topic: TopicFacts) -> Iterator[Said]:
    """Nobody knows it; or its brokers do, and no name server does."""
    name = facts.unwrapped(topic.name)
    having = [each for each in facts.cluster.brokers if _has(each, topic.name)]
    if having:
        yield Finding(
            "a broker has the topic, and no name server names it: consumers see no route",
            f"{name} on {', '.join(each.name for each in having)}",
            "wait 30 s for the broker to register; then look at namesrvAddr in its broker.conf and into its log",
            "severe",
        )
    elif not topic.name.startswith(RETRY_PREFIX):  # those are made when they are needed, also by pop, one a topic
        closed = [each.name for each in facts.cluster.brokers if each.makes_topics is False]
        why = f", and {', '.join(closed)} make{'s' * (len(closed) == 1)} none" if closed else ""
        yield Finding(
            f"the topic does not exist{why}: there is no route to it",
            name,
            make_topic(facts.cluster, topic.name, then="or look for a mistake in its name"),
            "severe" if closed else "warning",
        )


def _has(broker: BrokerFacts, topic: str) -> bool:
    return not isinstance(broker.topics, FrameworkError) and topic in broker.topics


def _permission(facts: GroupFacts, topic: TopicFacts, data: QueueData) -> Iterator[Said]:
    where = f"{facts.unwrapped(topic.name)} on {data.broker_name}"
    remedy = _open(facts, topic.name, data.broker_name)
    is_retry = topic.name.startswith(RETRY_PREFIX)
    if not data.perm & PERM_READ or not data.read_queue_nums:
        what = f"perm={data.perm}, {data.read_queue_nums} queues"
        yield Finding(f"the topic may not be read ({what}): consumers see no queue of it", where, remedy, "severe")
    if not data.perm & PERM_WRITE or not data.write_queue_nums:
        what = f"perm={data.perm}, {data.write_queue_nums} queues"
        then = "failed messages are not retried" if is_retry else "producers see no route"
        severity: Severity = "severe" if is_retry else "warning"
        yield Finding(f"the topic may not be written ({what}): {then}", where, remedy, severity)


def _open(facts: GroupFacts, topic: str, name: str) -> str:
    """What opens a topic at a broker, by who closed it: its own settings, the broker's, or the name server alone."""
    broker = next((each for each in facts.cluster.brokers if each.name == name), None)
    if broker is None or isinstance(broker.topics, FrameworkError) or topic not in broker.topics:
        return permit_topic(facts.cluster, topic, broker=broker)
    kept = broker.topics[topic]
    if not kept.read_queue_nums or not kept.write_queue_nums:
        return make_topic(facts.cluster, topic, broker=broker)
    if kept.perm & READ_WRITE != READ_WRITE:
        return permit_topic(facts.cluster, topic, kept.perm | READ_WRITE, broker=broker)
    if isinstance(broker.settings, FrameworkError) or broker.settings.get(PERMISSION, "6") == "6":
        return mqadmin(facts.cluster, "addWritePerm", "-b", name, then="mqadmin wipeWritePerm closed it")
    return switch_on(facts.cluster, broker, PERMISSION, "6")


def _access(facts: GroupFacts) -> Iterator[Said]:
    """Rules that clients show as `no route`, or as a group that gets nothing."""
    if not facts.topics:
        yield Unlooked("what its members may read", facts.shown, "its topics are not known; name one with --topic")
    retry, is_told = retry_topic(facts.name), False
    for topic in sorted(facts.topics.values(), key=lambda topic: topic.name == retry):
        name = facts.unwrapped(topic.name)
        if topic.name == retry and is_told:
            continue  # the command that lets the group read is there already
        is_told = is_told or is_denied(topic.route) or is_denied(topic.probe)
        if isinstance(topic.probe, Refused) and topic.probe.is_of_the_user:
            yield Unlooked("whether the group may read it", name, reason_of(topic.probe))
        elif is_denied(topic.route):
            assert isinstance(topic.route, FrameworkError)
            yield _denied(topic.route, "the route is refused", topic, facts)
        elif is_denied(topic.probe):
            assert isinstance(topic.probe, FrameworkError)
            yield _denied(topic.probe, "reading is refused", topic, facts)
        elif isinstance(topic.probe, FrameworkError):
            yield Unlooked("whether the group may read it", name, reason_of(topic.probe))
        for broker in facts.cluster.brokers:
            if broker.forbidden.get(facts.name, {}).get(topic.name):
                yield Finding(
                    "the broker forbids the group to read the topic: it gets nothing of it",
                    f"{name} on {broker.name}",
                    "lift it: updateAndGetGroupReadForbidden(..., readable=true) of RocketMQ's DefaultMQAdminExt",
                    "severe",
                )


def _denied(error: FrameworkError, what: str, topic: TopicFacts, facts: GroupFacts) -> Finding:
    user = re.search(r"\bUser:(\S+)", str(error))
    resources = ",".join([
        *(f"Topic:{name}" for name in facts.topics if not name.startswith(RETRY_PREFIX)), f"Group:{facts.name}"
    ])  # fmt: skip
    return Finding(
        f"{what}: {reason_of(error)}; clients show such a rule as `no route`, or get nothing",
        facts.unwrapped(topic.name),
        mqadmin(
            facts.cluster, "createAcl", *at_brokers(facts.cluster), "-s", f"User:{user[1] if user else 'USER'}", "-r",
            resources, "-a", "Sub,Get", "-d", "Allow", then="or give other credentials in cluster.credentials",
        ),
        "severe",
    )  # fmt: skip


def _filters(facts: GroupFacts) -> Iterator[Said]:
    if isinstance(facts.positions, FrameworkError):
        return
    by_sql = sorted({each.topic for each in _subscriptions(facts) if each.expression_type == BY_SQL})
    for broker in facts.cluster.brokers if by_sql else ():
        names = ", ".join(map(facts.unwrapped, by_sql))
        if broker.is_on(SQL) is False:
            yield Finding(
                f"{SQL}=false, and the group filters {names} by SQL92: the broker refuses its pulls",
                broker.name,
                switch_on(facts.cluster, broker, SQL, "true"),
                "severe",
            )
        elif broker.is_on(SQL) is None:
            yield Unlooked(f"whether it filters {names} by SQL92", broker.name, f"it does not say {SQL}")


def _subscriptions(facts: GroupFacts) -> list[SubscriptionData]:
    assert not isinstance(facts.positions, FrameworkError)
    members = facts.positions.members
    told = [each for member in members.members if member.info for each in member.info.subscriptions]
    return [*members.subscriptions.values(), *told]


# What waits


def _stuck(facts: GroupFacts) -> Iterator[Said]:
    if isinstance(facts.stuck, FrameworkError) or isinstance(facts.positions, FrameworkError):
        error = facts.stuck if isinstance(facts.stuck, FrameworkError) else facts.positions
        assert isinstance(error, FrameworkError)
        yield Unlooked("whether it stands behind one message", facts.shown, reason_of(error))
        return
    for row in facts.positions.rows:
        offset, end = facts.stuck.get(row.queue), row.end
        if offset is None or end is None:
            continue
        behind = max(end - offset - 1, 0)
        topic = facts.unwrapped(row.queue.topic)
        yield Finding(
            f"the queue stands at offset {offset:,}, stored {row.lag_s or 0:,.0f} s ago: the same between two looks "
            f"{facts.stuck_s:g} s apart; {behind:,} messages behind it cannot be confirmed",
            f"{topic} {row.queue.broker}:{row.queue.number}, member {row.owner or 'not known'}",
            f"see the message: framework-app tail {topic} --from {offset} --limit 1; see what its handler waits for "
            "(its stacks); set a timeout, so that it is retried",
            "severe" if (row.lag_s or 0) >= LONG_S else "warning",
        )


def _expiring(facts: GroupFacts) -> Iterator[Said]:
    """Messages that brokers delete, or have deleted, before the group has read them."""
    if isinstance(facts.positions, FrameworkError) or isinstance(facts.begins, FrameworkError):
        error = facts.begins if isinstance(facts.begins, FrameworkError) else facts.positions
        assert isinstance(error, FrameworkError)
        yield Unlooked("whether messages are deleted before they are read", facts.shown, reason_of(error))
        return
    gone: dict[str, int] = {}
    oldest_s: dict[str, float] = {}
    for row in facts.positions.rows:
        begin = facts.begins.get(row.queue)
        if begin is not None and row.offset is not None and row.offset < begin:
            gone[row.queue.broker] = gone.get(row.queue.broker, 0) + begin - row.offset
        if row.lag and row.lag_s is not None:
            oldest_s[row.queue.broker] = max(oldest_s.get(row.queue.broker, 0), row.lag_s)
    for broker in facts.cluster.brokers:
        if isinstance(broker.settings, FrameworkError):
            if broker.name in oldest_s:
                yield Unlooked("how long it keeps messages", broker.name, reason_of(broker.settings))
            continue
        hours = broker.settings.get(KEPT_HOURS, "")
        longer = str(max(2 * int(hours), 72)) if hours.isdecimal() else "72"
        remedy = switch_on(facts.cluster, broker, KEPT_HOURS, longer, then="and start more members")
        if broker.name in gone:
            yield Finding(
                f"{gone[broker.name]:,} messages were deleted before the group had read them ({KEPT_HOURS}={hours} h)",
                f"{facts.shown} at {broker.name}",
                remedy,
                "severe" if facts.positions.members.members else "warning",
            )
        elif hours.isdecimal() and oldest_s.get(broker.name, -1) >= NEARLY_EXPIRED * int(hours) * 3600:
            yield Finding(
                f"the oldest message that the group has not read is {oldest_s[broker.name] / 3600:,.1f} h old, and the "
                f"broker deletes what is older than {hours} h, read or not ({KEPT_HOURS})",
                f"{facts.shown} at {broker.name}",
                remedy,
                "warning",
            )


def _nobody(facts: GroupFacts) -> Iterator[Said]:
    if isinstance(facts.positions, FrameworkError):
        yield Unlooked("whether somebody consumes", facts.shown, reason_of(facts.positions))
        return
    members = {each.client_id for each in facts.positions.members.members}
    for who, reason in sorted(facts.positions.unknown.items()):
        if who in members:
            continue  # told where members are compared
        yield Unlooked("what it knows of the group", who, reason)
    if facts.positions.blank and not facts.positions.is_nobody:
        yield Unlooked("how much it has to do", facts.shown, facts.positions.blank)
    lag = sum(row.lag or 0 for row in facts.positions.rows)
    if lag and not members:
        # Executors of Spark are no members: offsets are all that shows of what they read.
        remedy = "start the application; if a query of Spark's reads them (mode: source), see whether its lag falls"
        yield Finding(f"no member is online, and {lag:,} messages wait", facts.shown, remedy, "warning")


def _dead_letters(facts: GroupFacts) -> Iterator[Said]:
    if isinstance(facts.letters, ConfigurationError):
        text = str(facts.letters)
        if "may not be read" in text:
            remedy = _open(facts, dead_letter_topic(facts.name), "")
            yield Finding("the group's dead letters cannot be read", facts.shown, remedy, "notice")
        return  # no broker has the group: there are none
    if isinstance(facts.letters, FrameworkError):
        yield Unlooked("how many dead letters there are", facts.shown, reason_of(facts.letters))
        return
    most = "at most " if facts.letters.unasked else ""
    if facts.letters.lately:
        yield Finding(
            f"dead letters grow: {most}{facts.letters.lately:,} within the last hour; "
            f"{most}{facts.letters.waiting:,} wait",
            facts.shown,
            f"framework-app dlq list {facts.shown} shows why; mend that, then framework-app dlq replay {facts.shown}",
            "warning",
        )
    elif facts.letters.waiting:
        yield Finding(
            f"{most}{facts.letters.waiting:,} dead letters wait; none came within the last hour",
            facts.shown,
            f"framework-app dlq replay {facts.shown}, or framework-app dlq drop {facts.shown}",
            "notice",
        )


# Progress


def _progress(facts: GroupFacts) -> Iterator[Said]:
    """Members of ours that want a topic which nobody makes write files of their own machine instead."""
    if isinstance(facts.positions, FrameworkError):
        return
    wishes = [each for each in facts.positions.members.members if _keeps_in_topic(each)]
    if not wishes or isinstance(facts.progress_route, TopicRoute):
        return
    name = facts.unwrapped(progress_topic(facts.name))
    if isinstance(facts.progress_route, FrameworkError):
        yield Unlooked("whether the topic for progress exists", name, reason_of(facts.progress_route))
        return
    for broker in facts.cluster.brokers:
        if broker.makes_topics is None:
            yield Unlooked("whether it makes the topic for progress", broker.name, f"it does not say {CREATES_TOPICS}")
        elif not broker.makes_topics:
            yield Finding(
                "the topic for progress is missing, and the broker makes no topic itself: what is done "
                "above an unfinished message is kept on the member's machine, and comes again on another one",
                f"{name} on {broker.name}",
                make_topic(
                    facts.cluster,
                    progress_topic(facts.name),
                    4,
                    broker=broker,
                    then=f"or consumers.{facts.shown}.progress: local",
                ),
                "warning",
            )


def _keeps_in_topic(member: GroupMember) -> bool:
    return member.info is not None and member.info.properties.get("settings.progress") in {"auto", "topic"}


GROUP_CHECKS: tuple[Check[GroupFacts], ...] = (
    Check("brokers have the group", _known),
    Check("brokers keep what fails", _retry_room),
    Check("topics exist and may be read", _topics),
    Check("access rules let the group read", _access),
    Check("brokers can filter as it wants", _filters),
    *MEMBER_CHECKS,
    Check("somebody consumes", _nobody),
    Check("messages are read before they are deleted", _expiring),
    Check("no queue stands behind one message", _stuck),
    Check("dead letters do not grow", _dead_letters),
    Check("progress has its topic", _progress),
)
