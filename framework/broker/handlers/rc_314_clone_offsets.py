"""CLONE_GROUP_OFFSET (314): a group continues where another one is, in one topic or in all that the other reads.

Differences: offsets that the target has in other queues stay, as in RocketMQ. The target's send-backs are forgotten, as
by 222. `offline` makes no difference.
"""

from __future__ import annotations

from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok
from framework.broker.store.sent_back import forget
from framework.broker.topic_rules import check_group_name
from framework.wire.codes import ResponseCode
from framework.wire.requests.admin import CloneOffsetsRequest


def handle(request: Request) -> Answer:
    header = request.header(CloneOffsetsRequest)
    check_group_name(header.dest_group)
    node = request.node
    offsets = node.offsets
    for key, offset in offsets.table.items():
        if key.group == header.src_group and header.topic in {None, "", key.topic}:
            if not node.may_commit(header.dest_group, key.topic, key.number):
                limit = node.settings.offsets_max
                raise Refusal(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {limit} offsets are kept, the limit")
            offsets.put(header.dest_group, key.topic, key.number, offset)
    return AfterCommit(lambda transaction: forget(transaction.connection, node.name, header.dest_group), lambda _: ok())
