"""UPDATE_CONSUMER_OFFSET (15): a commit. Unconditional, so it may go backwards.

Differences: a request is answered after it is on disk; a one-way commit is on disk within half a second (RocketMQ: 5 s,
both). An offset below 0 or above 2^40, which no queue here can have, or a queue that the topic lacks, is refused with
29: no client means one, and RocketMQ stores all three. An offset above a queue's end is stored, as there: the next pull
corrects it. While a reset (222) waits for its pull, a commit is acknowledged and changes nothing, as there. A commit
that names an epoch (31002) is refused with 31000 once a higher epoch was given out.
"""

from __future__ import annotations

from framework.broker.acquisitions import check_epoch, place_of
from framework.broker.request import Answer, Refusal, Request, ok, when_saved
from framework.broker.store.queues import COMMIT_MAX
from framework.wire.codes import ResponseCode
from framework.wire.requests.offset import UpdateOffsetRequest


def handle(request: Request) -> Answer:
    header = request.header(UpdateOffsetRequest)
    node = request.node
    key = place_of(node, header.consumer_group, header.topic, header.queue_id)
    if not 0 <= header.commit_offset <= COMMIT_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"commit offset {header.commit_offset} is not between 0 and {COMMIT_MAX}"
        )
    if header.epoch is not None:
        check_epoch(node, key, header.epoch)
    if not node.may_commit(header.consumer_group, header.topic, header.queue_id):
        limit = node.settings.offsets_max
        raise Refusal(
            ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {limit} offsets are kept, the limit; delete groups or topics"
        )
    node.offsets.put(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    if request.command.is_one_way:
        node.save_soon()
        return ok()
    return when_saved()
