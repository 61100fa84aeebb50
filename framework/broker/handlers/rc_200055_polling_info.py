"""POLLING_INFO (200055): how many pops of a group wait for a message of a queue; -1 asks for those of any queue.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.pop_requests import check_consumer
from framework.broker.pops import waiting_name
from framework.broker.request import Answer, Request, ok
from framework.wire.fields import to_fields
from framework.wire.requests.pop import PollingInfoAnswer, PollingInfoRequest


def handle(request: Request) -> Answer:
    header = request.header(PollingInfoRequest)
    check_consumer(request, header.consumer_group, header.topic, header.queue_id)
    name = waiting_name(header.consumer_group, header.topic)
    return ok(to_fields(PollingInfoAnswer(polling_num=request.node.pops.holds.count(name, header.queue_id))))
