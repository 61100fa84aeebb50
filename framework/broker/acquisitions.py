"""What requests about a group's progress in a queue have in common: whether there is such a thing, and whose it is.

A commit or a record under an epoch that is outdated is refused: another member has taken the queue since, and what a
former owner still says must not undo what its successor has. Members that name no epoch are served as ever.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.request import Refusal
from framework.broker.store.offsets import OffsetKey
from framework.errors import bare
from framework.wire.codes import ResponseCode

RECORD_BYTES_MAX = 64 * 1024  # sixteen times what our own members write


def place_of(node: Node, group: str, topic: str, number: int) -> OffsetKey:
    """The group's place in a queue that exists, or a Refusal."""
    if group not in node.rules.groups:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {bare(group)} not exist!")
    found = node.rules.topics.get(topic)
    if found is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {bare(topic)} not exist!")
    if not 0 <= number < max(found.read_queues, found.write_queues):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"queue id {number} is not one of {topic}")
    return OffsetKey(group, topic, number)


def check_epoch(node: Node, key: OffsetKey, epoch: int) -> None:
    """Refuse what a former owner says."""
    if is_refused_for(node, key, epoch):
        raise Refusal(
            ResponseCode.BOX_EPOCH_OUTDATED,
            f"epoch {epoch} of {key.group} in {key.topic}:{key.number} is outdated: another member has taken the queue",
        )


def is_refused_for(node: Node, key: OffsetKey, epoch: int) -> bool:
    """Whether a commit or a record under this epoch is one of a former owner."""
    return node.progress.is_outdated(key, epoch)


def check_record(content: bytes) -> None:
    if len(content) > RECORD_BYTES_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"a record of {len(content)} bytes; {RECORD_BYTES_MAX} are the most"
        )
