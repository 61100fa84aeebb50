"""UPDATE_AND_CREATE_TOPIC (17): make a topic, or change its queues and permissions; answered when it is on disk.

Differences: at most 1,024 queues and the broker's quota of topics. Attributes are kept, and only kept.
"""

from __future__ import annotations

from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok
from framework.broker.store.topics import PERM_INHERIT, PERM_READ_WRITE, Topic
from framework.broker.store.writer import Transaction
from framework.broker.topic_rules import QUEUES_MAX, check_topic_name
from framework.errors import shorten
from framework.wire.codes import ResponseCode
from framework.wire.command import Command
from framework.wire.fields import from_fields
from framework.wire.requests.admin import UpdateTopicRequest


def handle(request: Request) -> Answer:
    header = from_fields(UpdateTopicRequest, request.command.fields)
    rules = request.node.rules
    check_topic_name(header.topic)
    if rules.is_own(header.topic):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"The topic[{header.topic}] is conflict with system topic.")
    for count in (header.read_queue_nums, header.write_queue_nums):
        if not 0 <= count <= QUEUES_MAX:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"{count} queues: a topic has 0 to {QUEUES_MAX}")
    if header.perm & ~(PERM_READ_WRITE | PERM_INHERIT):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"perm {header.perm}: use 2 write, 4 read, 6 both")
    known = rules.topics.get(header.topic)
    rules.add(
        Topic(
            name=header.topic,
            read_queues=header.read_queue_nums,
            write_queues=header.write_queue_nums,
            perm=header.perm,
            is_ordered=header.order,
            sys_flag=header.topic_sys_flag or 0,
            attributes=_attributes({} if known is None else known.attributes, header.attributes or ""),
        )
    )
    return AfterCommit(_with_the_next_group, _done)


def _attributes(known: dict[str, str], changes: str) -> dict[str, str]:
    """`+key=value,-key` applied."""
    attributes = dict(known)
    for change in filter(None, (part.strip() for part in changes.split(","))):
        sign, (name, _, value) = change[0], change[1:].partition("=")
        if sign == "+" and name and value:
            attributes[name] = value
        elif sign == "-" and name:
            attributes.pop(name, None)
        else:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"attribute {shorten(change)}: write +key=value or -key")
    return attributes


def _with_the_next_group(_: Transaction) -> None:
    """Nothing of its own: changed topics are written along with every group."""


def _done(_: object) -> Command:
    return ok()
