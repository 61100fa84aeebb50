"""UPDATE_CONSUMER_OFFSET (15): a commit. Unconditional, so it may go backwards.

Differences: a request is answered after it is on disk; a one-way reaches it within half a second (RocketMQ: 5 s, both).
An offset below 0, or a queue that the topic lacks, is refused with 29: no client means one, and RocketMQ keeps both.
While a reset (222) waits to be taken up, a commit is acknowledged and changes nothing, as there.
"""

from __future__ import annotations

from framework.broker.request import Answer, Refusal, Request, ok, when_saved
from framework.errors import shorten
from framework.wire.codes import ResponseCode
from framework.wire.fields import from_fields
from framework.wire.requests.offset import UpdateOffsetRequest


def handle(request: Request) -> Answer:
    header = from_fields(UpdateOffsetRequest, request.command.fields)
    node = request.node
    if header.consumer_group not in node.rules.groups:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {shorten(header.consumer_group)} not exist!")
    topic = node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {shorten(header.topic)} not exist!")
    if not 0 <= header.queue_id < max(topic.read_queues, topic.write_queues):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"queue id {header.queue_id} is not one of {header.topic}")
    if header.commit_offset < 0:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"commit offset {header.commit_offset} is below 0")
    node.offsets.put(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    if request.command.is_one_way:
        node.save_soon()
        return ok()
    return when_saved()
