"""What tests of administration share: requests by their fields, topics, groups, commits and routes."""

from __future__ import annotations

from typing import Any

from framework.wire.bodies.config import GroupConfig
from framework.wire.bodies.route import TopicRoute
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.admin import UpdateTopicRequest
from framework.wire.requests.query import QueryMessageRequest
from framework.wire.stored import decode_records
from tests.broker.broker_lab import BrokerLab

GROUP = "readers"


def ask(lab: BrokerLab, code: int, body: bytes = b"", /, **fields: str) -> RemotingCommand:
    return lab.answer(RemotingCommand(code, fields, body))


def make_topic(lab: BrokerLab, name: str = "t", *, queues: int = 1, perm: int = 6, order: bool = False) -> None:
    header = UpdateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=perm, order=order
    )
    assert lab.answer(RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, to_fields(header))).code == 0


def make_group(lab: BrokerLab, name: str = GROUP, **settings: Any) -> None:
    body = GroupConfig(name=name, **settings).encode()
    assert ask(lab, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == 0


def query(lab: BrokerLab, key: str, *, topic: str = "t", unique: bool = False, **changes: int) -> list[bytes]:
    wish = {"max_num": 32, "begin_timestamp": 0, "end_timestamp": 1 << 62, **changes}
    header = QueryMessageRequest(topic=topic, key=key, by_unique_key=unique, **wish)
    answer = lab.answer(RemotingCommand(RequestCode.QUERY_MESSAGE, to_fields(header)))
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    assert answer.code == 0
    return [record.body for record in decode_records(answer.body)]


def commit(lab: BrokerLab, offset: int, *, group: str = GROUP, topic: str = "t") -> None:
    lab.node.rules.group(group)
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    assert ask(lab, RequestCode.UPDATE_CONSUMER_OFFSET, **fields).code == 0


def route(lab: BrokerLab, topic: str) -> TopicRoute:
    return TopicRoute.decode(ask(lab, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic).body)
