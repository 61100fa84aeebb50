"""NOTIFICATION (200054): wait until a group has something to pop, and take nothing.

Differences: orderly ones are refused with 29. Messages that the group's filter keeps out count, as there.
"""

from __future__ import annotations

from framework.broker.pop_requests import WAIT_MS_MAX, check_consumer
from framework.broker.pops import waiting_name
from framework.broker.request import Answer, Hold, Refusal, Request, ok
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.pop import NotificationAnswer, NotificationRequest


def handle(request: Request) -> Answer:
    node, header = request.node, request.header(NotificationRequest)
    if header.order:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "order=true: orderly groups cannot pop here; pull instead")
    topic = check_consumer(request, header.consumer_group, header.topic, header.queue_id)
    node.pops.know(header.consumer_group, topic.name)
    if node.pops.has_any(header.consumer_group, topic, header.queue_id):
        # Who only asks takes nothing: a pop that waits as well is to have it.
        if request.was_held:
            node.pops.more(header.consumer_group, topic.name)
        return ok(to_fields(NotificationAnswer(has_msg=True)))
    now_ms = node.world.clock.now_ms()
    if not header.born_time:  # by our clock, and by the same moment when it is looked at again
        request.command.fields["bornTime"] = str(now_ms)
    left_ms = min((header.born_time or now_ms) + header.poll_time - now_ms, WAIT_MS_MAX)
    if left_ms <= 0 or node.pops.is_stopped:
        return ok(to_fields(NotificationAnswer(has_msg=False)))
    if not node.pops.holds.has_room(request.client):
        return ok(to_fields(NotificationAnswer(has_msg=False, polling_full=True)))
    return Hold(waiting_name(header.consumer_group, topic.name), header.queue_id, left_ms, is_pop=True)
