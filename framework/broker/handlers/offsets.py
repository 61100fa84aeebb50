"""Offsets: where a group goes on, where queues begin and end, and what is finished above a gap.

A commit or a record under an epoch that is outdated is refused: another member has taken the queue since, and what a
former owner still says must not undo what its successor has. Members that name no epoch are served as ever.
"""

from __future__ import annotations

from framework.broker.answers import AfterCommit, Answer, Refusal, ok, when_saved
from framework.broker.node import Node
from framework.broker.request import Request
from framework.broker.store.queues import COMMIT_MAX
from framework.broker.store.sent_back import GroupPlace, forget
from framework.broker.store.topics import Topic
from framework.broker.topic_rules import check_group_name
from framework.errors import bare
from framework.model.queue import MessageQueue
from framework.wire.bodies.progress import ResetOffsets
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.admin import CloneOffsetsRequest, ResetOffsetRequest
from framework.wire.requests.offset import (
    UPPER,
    EarliestStoreTimeAnswer,
    EarliestStoreTimeRequest,
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetAnswer,
    QueryOffsetRequest,
    SearchOffsetRequest,
    UpdateOffsetRequest,
)
from framework.wire.requests.progress import (
    ProgressAnswer,
    QueryProgressRequest,
    TakeProgressRequest,
    UpdateProgressRequest,
)

# One file of RocketMQ's log, mapped whole: what lies in the newest one is in memory on any machine.
YOUNG_BYTES = 1 << 30
RECORD_BYTES_MAX = 64 * 1024  # sixteen times what our own members write


def query_offset(request: Request) -> Answer:
    """QUERY_CONSUMER_OFFSET (14): where a group continues in a queue, or 22; 0 while the topic is young.

    Differences: a queue counts as young while its first message is there and among the last GiB that was stored;
    RocketMQ asks whether the message is in memory.
    """
    header = request.header(QueryOffsetRequest)
    offset = request.node.offsets.get(header.consumer_group, header.topic, header.queue_id)
    if offset is None:
        if header.set_zero_if_not_found is False:
            reason = "Not found, do not set to zero, maybe this group boot first"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, reason)
        if not _is_young(request.node, header.topic, header.queue_id):
            reason = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, reason)
        # A new group that wants to begin at the end still gets the first messages: Java's default counts on it.
        offset = 0
    return ok(to_fields(OffsetAnswer(offset=offset)))


def _is_young(node: Node, topic: str, number: int) -> bool:
    queue = node.queue(topic, number)
    if queue is None or queue.low > 0 or queue.end == 0:
        return False
    place = node.store.log.place_of(queue, 0)
    return place is not None and node.store.writer.place - place <= YOUNG_BYTES


def update_offset(request: Request) -> Answer:
    """UPDATE_CONSUMER_OFFSET (15): a commit. Unconditional, so it may go backwards.

    Differences: a request is answered after it is on disk; a one-way commit is on disk within half a second (RocketMQ:
    5 s, both). An offset below 0 or above 2^40, which no queue here can have, or a queue that the topic lacks, is
    refused with 29: no client means one, and RocketMQ stores all three. An offset above a queue's end is stored, as
    there: the next pull corrects it. While a reset (222) waits for its pull, a commit is acknowledged and changes
    nothing, as there. A commit that names an epoch (31002) is refused with 31000 once a higher epoch was given out.
    """
    header = request.header(UpdateOffsetRequest)
    node = request.node
    key = _place_of(node, header.consumer_group, header.topic, header.queue_id)
    if not 0 <= header.commit_offset <= COMMIT_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"commit offset {header.commit_offset} is not between 0 and {COMMIT_MAX}"
        )
    if header.epoch is not None:
        _check_epoch(node, key, header.epoch)
    if not node.offsets.has_room(header.consumer_group, header.topic, header.queue_id):
        limit = node.settings.offsets_max
        raise Refusal(
            ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {limit} offsets are kept, the limit; delete groups or topics"
        )
    node.offsets.put(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    if request.command.is_one_way:
        node.save_soon()
        return ok()
    return when_saved()


def search_offset(request: Request) -> Answer:
    """SEARCH_OFFSET_BY_TIMESTAMP (29): the first offset stored at a time or later (LOWER), or the last until it
    (UPPER).
    """
    header = request.header(SearchOffsetRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    if queue is None:
        return ok(to_fields(OffsetAnswer(offset=0)))
    is_upper = header.boundary_type.upper() == UPPER
    offset = request.node.store.log.offset_at(queue, header.timestamp, upper=is_upper)
    return ok(to_fields(OffsetAnswer(offset=offset)))


def max_offset(request: Request) -> Answer:
    """GET_MAX_OFFSET (30): the offset that the next message will get; 0 for a queue without messages.

    Differences: `committed` makes none, for nothing is visible before it is on disk.
    """
    header = request.header(MaxOffsetRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    return ok(to_fields(OffsetAnswer(offset=0 if queue is None else queue.end)))


def min_offset(request: Request) -> Answer:
    """GET_MIN_OFFSET (31): the first offset that is still there; 0 for a queue without messages."""
    header = request.header(MinOffsetRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    return ok(to_fields(OffsetAnswer(offset=0 if queue is None else queue.low)))


def earliest_store_time(request: Request) -> Answer:
    """GET_EARLIEST_MSG_STORETIME (32): when the first message that is still there was stored; -1 where there is
    none.
    """
    header = request.header(EarliestStoreTimeRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    stored_ms = None if queue is None else request.node.store.log.stored_ms(queue, queue.low)
    return ok(to_fields(EarliestStoreTimeAnswer(timestamp=-1 if stored_ms is None else stored_ms)))


def reset_offset(request: Request) -> Answer:
    """INVOKE_BROKER_TO_RESET_OFFSET (222): a group continues elsewhere in a topic, its members online or not; 17, 26.

    Differences: as 5.2 and later: the offsets are kept here until each queue's next pull takes them with 21; until then
    commits are acknowledged and change nothing. They survive a restart, and held pulls of the group are answered at
    once. The group's send-backs are forgotten, so that its messages may fail again. A queue that the topic lacks is
    refused with 1. isForce makes no difference, as there; nor does the list form for administrators in C++, which 5.x
    does not send either.
    """
    header = request.header(ResetOffsetRequest)
    node = request.node
    topic = node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {bare(header.topic)} does not exist")
    if node.rules.groups.get(header.group) is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {bare(header.group)} does not exist")
    offsets = _offsets(node, topic, header)
    for number, offset in offsets.items():
        node.offsets.reset(header.group, topic.name, number, offset)

    def answer(_: None) -> RemotingCommand:
        node.holds.look_again(header.group, topic.name)
        queues = {MessageQueue(topic.name, node.name, number): offset for number, offset in offsets.items()}
        return ok(body=ResetOffsets(offsets=queues).encode())

    return AfterCommit(lambda transaction: forget(transaction.connection, node.name, header.group), answer)


def _offsets(node: Node, topic: Topic, header: ResetOffsetRequest) -> dict[int, int]:
    """Queue number to offset: of all queues, or of the one asked for."""
    if header.queue_id < 0:
        return {number: _at(node, topic.name, number, header.timestamp) for number in range(topic.read_queues)}
    if header.queue_id >= topic.read_queues:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"queue {header.queue_id} is not one of {topic.name}")
    if header.offset is None or header.offset == -1:
        return {header.queue_id: _at(node, topic.name, header.queue_id, header.timestamp)}
    queue = node.queue(topic.name, header.queue_id)
    low, end = (0, 0) if queue is None else (queue.low, queue.end)
    if not low <= header.offset <= end + 1:  # one past the next, as there: the pull that follows sets it right
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"Target offset {header.offset} not in consume queue range [{low}-{end}]"
        )
    return {header.queue_id: header.offset}


def _at(node: Node, topic: str, number: int, time_ms: int) -> int:
    queue = node.queue(topic, number)
    if queue is None:
        return 0
    return queue.end if time_ms < 0 else node.store.log.offset_at(queue, time_ms)


def clone_offsets(request: Request) -> Answer:
    """CLONE_GROUP_OFFSET (314): a group continues where another one is, in one topic or in all that the other reads.

    Differences: offsets that the target has in other queues stay, as in RocketMQ. The target's send-backs are
    forgotten, as by 222. `offline` makes no difference.
    """
    header = request.header(CloneOffsetsRequest)
    check_group_name(header.dest_group)
    node = request.node
    offsets = node.offsets
    for key, offset in offsets.table.items():
        if key.group == header.src_group and header.topic in {None, "", key.topic}:
            if not node.offsets.has_room(header.dest_group, key.topic, key.number):
                limit = node.settings.offsets_max
                raise Refusal(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {limit} offsets are kept, the limit")
            offsets.put(header.dest_group, key.topic, key.number, offset)
    return AfterCommit(lambda transaction: forget(transaction.connection, node.name, header.dest_group), lambda _: ok())


def query_progress(request: Request) -> Answer:
    """BOX_QUERY_PROGRESS (31001): what a group has finished above a gap in a queue, with its epoch; or 22.

    Differences: RocketMQ has no such request. It is for members of ours with `progress: broker`.
    """
    header = request.header(QueryProgressRequest)
    key = _place_of(request.node, header.consumer_group, header.topic, header.queue_id)
    kept = request.node.progress.get(key)
    if kept is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"{header.consumer_group} has kept nothing of {header.topic}")
    return ok(to_fields(ProgressAnswer(epoch=kept.epoch)), kept.content)


def take_progress(request: Request) -> Answer:
    """BOX_TAKE_PROGRESS (31002): the first record of an acquisition of a queue; answered with its epoch, from the disk.

    Differences: RocketMQ has no such request. Epochs rise with each acquisition; from here on commits (15) and records
    (31003) under a lower one are refused with 31000.
    """
    header = request.header(TakeProgressRequest)
    node, content = request.node, request.command.body
    key = _place_of(node, header.consumer_group, header.topic, header.queue_id)
    _check_record(content)
    epoch = node.progress.take(key, content, node.world.clock.now_ms())
    return when_saved(ok(to_fields(ProgressAnswer(epoch=epoch))))


def update_progress(request: Request) -> Answer:
    """BOX_UPDATE_PROGRESS (31003): a later record of an acquisition, answered from the disk; 31000 if it is outdated.

    Differences: RocketMQ has no such request. A record has at most 64 KiB, else 29.
    """
    header = request.header(UpdateProgressRequest)
    node, content = request.node, request.command.body
    key = _place_of(node, header.consumer_group, header.topic, header.queue_id)
    _check_record(content)
    _check_epoch(node, key, header.epoch)
    node.progress.put(key, header.epoch, content)
    return when_saved()


def _place_of(node: Node, group: str, topic: str, number: int) -> GroupPlace:
    """The group's place in a queue that exists, or a Refusal."""
    if group not in node.rules.groups:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {bare(group)} not exist!")
    found = node.rules.topics.get(topic)
    if found is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {bare(topic)} not exist!")
    if not 0 <= number < max(found.read_queues, found.write_queues):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"queue id {number} is not one of {topic}")
    return GroupPlace(group, topic, number)


def _check_epoch(node: Node, key: GroupPlace, epoch: int) -> None:
    """Refuse what a former owner says."""
    if node.progress.is_outdated(key, epoch):
        raise Refusal(
            ResponseCode.BOX_EPOCH_OUTDATED,
            f"epoch {epoch} of {key.group} in {key.topic}:{key.number} is outdated: another member has taken the queue",
        )


def _check_record(content: bytes) -> None:
    if len(content) > RECORD_BYTES_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"a record of {len(content)} bytes; {RECORD_BYTES_MAX} are the most"
        )
