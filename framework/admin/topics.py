"""Topics: what there is, how many queues where, and how many messages come a second."""

from __future__ import annotations

import json
from dataclasses import dataclass

from framework.admin.cluster import Admin, Answers
from framework.admin.groups import is_replays, is_system, reason_of
from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, Refused
from framework.model.queue import MessageQueue
from framework.model.reserved import (
    AUTO_CREATE_TOPIC,
    DEAD_LETTER_PREFIX,
    PROGRESS_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_TOPICS,
    reply_topic,
)
from framework.wire import exchanges
from framework.wire.bodies.route import GroupList
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import Exchange, body_of
from framework.wire.requests.admin import BrokerStatsRequest, GroupsOfTopicRequest

STORED = "TOPIC_PUT_NUMS"
_OWN = (RETRY_PREFIX, DEAD_LETTER_PREFIX, PROGRESS_PREFIX, "RMQ_SYS_", "rmq_sys_", SCHEDULE_TOPIC, AUTO_CREATE_TOPIC)


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic. What is not known is None."""

    name: str
    queues: int | None
    brokers: tuple[str, ...]
    trouble: str = ""
    """Why its route is not known."""


def readers(admin: Admin, topic: str) -> Answers[set[str]]:
    """The groups that read it, or did, by the brokers that say so; without RocketMQ's own and ours."""
    found: Answers[set[str]] = Answers()
    asking = Exchange(GroupsOfTopicRequest(topic=topic), body_of(GroupList))
    answers = admin.ask_each(lambda _: asking)
    for broker, answer in answers.found.items():
        found.found[broker] = {name for name in answer.groups if not is_system(name) and not is_replays(admin, name)}
    found.failed = answers.failed
    return found


def topics(admin: Admin, *, with_system: bool = False) -> list[TopicView]:
    """Every topic that producers may have made, sorted; `with_system`: also retry and dead-letter topics and RocketMQ's
    own, and those named like brokers and clusters.
    """
    known = admin.topics()
    if not with_system:
        brokers = admin.brokers()
        named = admin.reach.ask_name_server(exchanges.system_topics())
        clusters = {broker.cluster for broker in brokers}
        reserved = {
            *named,
            *SYSTEM_TOPICS,
            *clusters,
            *map(reply_topic, clusters),
            *(broker.name for broker in brokers),
        }
        known = [name for name in known if name not in reserved and not name.startswith(_OWN)]
    return [_view(admin, name) for name in known]


def stored_a_second(admin: Admin, topic: TopicView, unknown: dict[str, str]) -> float | None:
    """How many messages came a second over the last minute, at all brokers; None where one does not say, and `unknown`
    has it with the reason.
    """
    if topic.queues is None:
        return None
    asking = Exchange(BrokerStatsRequest(stats_name=STORED, stats_key=topic.name), _a_second)
    total, is_known = 0.0, True
    for broker in topic.brokers:
        try:
            total += admin.ask_master(MessageQueue(topic.name, broker, 0), asking)
        except (BrokerUnreachable, ProtocolError, Refused) as error:
            if not _was_never_stored(error):
                unknown[f"rates at {broker}"] = reason_of(error)
                is_known = False
    return total if is_known else None


def _a_second(answer: RemotingCommand) -> float:
    """Of the last minute. A stock broker answers with the same of an hour and of a day."""
    try:
        return float(json.loads(answer.body)["statsMinute"]["tps"])
    except (ValueError, KeyError, TypeError):
        raise ProtocolError("no figures in the answer") from None


def _was_never_stored(error: FrameworkError) -> bool:
    """Whether the broker has nothing to count: no message came since it was started."""
    return isinstance(error, Refused) and error.code == ResponseCode.SYSTEM_ERROR and "not exist" in str(error)


def _view(admin: Admin, name: str) -> TopicView:
    try:
        route = admin.route(name)
    except (BrokerUnreachable, ProtocolError, Refused) as error:
        return TopicView(name, None, (), reason_of(error))
    if route is None:
        return TopicView(name, None, (), "no broker has it")
    return TopicView(name, len(route.readable), tuple(sorted(route.addresses)))
