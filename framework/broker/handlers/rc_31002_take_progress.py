"""BOX_TAKE_PROGRESS (31002): the first record of an acquisition of a queue; answered with its epoch, from the disk.

Differences: RocketMQ has no such request. Epochs rise with each acquisition; from here on commits (15) and records
(31003) under a lower one are refused with 31000.
"""

from __future__ import annotations

from framework.broker.acquisitions import check_record, place_of
from framework.broker.request import Answer, Request, ok, when_saved
from framework.wire.fields import to_fields
from framework.wire.requests.progress import ProgressAnswer, TakeProgressRequest


def handle(request: Request) -> Answer:
    header = request.header(TakeProgressRequest)
    node, content = request.node, request.command.body
    key = place_of(node, header.consumer_group, header.topic, header.queue_id)
    check_record(content)
    epoch = node.progress.take(key, content, node.world.clock.now_ms())
    return when_saved(ok(to_fields(ProgressAnswer(epoch=epoch))))
