"""UPDATE_AND_GET_GROUP_FORBIDDEN (353): whether a group may read a topic; changed where the request says so; 26.

Differences: a group that may not read is refused also if its pull brings its own subscription; RocketMQ does not check
that.
"""

from __future__ import annotations

from dataclasses import replace

from framework.broker.request import Answer, Refusal, Request, ok, when_saved
from framework.errors import bare
from framework.wire import dialect
from framework.wire.codes import ResponseCode
from framework.wire.requests.admin import GroupForbiddenRequest


def handle(request: Request) -> Answer:
    header = request.header(GroupForbiddenRequest)
    rules = request.node.rules
    group = rules.groups.get(header.group)
    if group is None and header.readable is None:
        return ok(body=dialect.dumps({"group": header.group, "topic": header.topic, "readable": True}))
    if group is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {bare(header.group)}"
        )
    is_readable = header.topic not in group.forbidden if header.readable is None else header.readable
    answer = ok(body=dialect.dumps({"group": group.name, "topic": header.topic, "readable": is_readable}))
    if header.readable is None:
        return answer
    others = tuple(topic for topic in group.forbidden if topic != header.topic)
    rules.put_group(replace(group, forbidden=others if is_readable else (*others, header.topic)))
    return when_saved(answer)
