"""BOX_UPDATE_PROGRESS (31003): a later record of an acquisition, answered from the disk; 31000 if it is outdated.

Differences: RocketMQ has no such request. A record has at most 64 KiB, else 29.
"""

from __future__ import annotations

from framework.broker.acquisitions import check_epoch, check_record, place_of
from framework.broker.request import Answer, Request, when_saved
from framework.wire.requests.progress import UpdateProgressRequest


def handle(request: Request) -> Answer:
    header = request.header(UpdateProgressRequest)
    node, content = request.node, request.command.body
    key = place_of(node, header.consumer_group, header.topic, header.queue_id)
    check_record(content)
    check_epoch(node, key, header.epoch)
    node.progress.put(key, header.epoch, content)
    return when_saved()
