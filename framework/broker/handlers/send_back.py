"""Send-backs: a message that failed goes to its group's retry topic, or to its dead letters."""

from __future__ import annotations

from dataclasses import replace

from framework.broker.answers import AfterCommit, Answer, Refusal, ok
from framework.broker.delays import Level
from framework.broker.node import Node
from framework.broker.records import decode, host_of
from framework.broker.request import Request
from framework.broker.sending import Planned, retries_max_of, write, written
from framework.broker.store import sent_back
from framework.broker.store.queues import Queue
from framework.broker.store.sent_back import Key
from framework.broker.store.topics import StoredGroup, Topic
from framework.broker.store.writer import Transaction
from framework.marks import sometimes
from framework.model.delay_levels import FIRST_RETRY_LEVEL
from framework.model.message import DELAY_LEVEL, ORIGIN_MESSAGE_ID, RETRY_TOPIC, WAIT_STORE
from framework.model.reserved import RETRY_PREFIX, group_of, pop_retry_topic
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.ids import offset_message_id
from framework.wire.requests.send import SendBackRequest
from framework.wire.stored import Record


def send_message_back(request: Request) -> Answer:
    """CONSUMER_SEND_MSG_BACK (36): a copy of a message for the group's retry topic, after a delay, or for its dead
    letters.

    Differences: asked twice for the same message and attempt it makes one copy (RocketMQ two), recognised for an hour.
    It makes a second one if the group went back to the message meanwhile, by a reset or a commit, and the first copy
    has been delivered. A group without a retry queue is refused with 16, where RocketMQ answers 0 and drops the
    message. RETRY_TOPIC is ignored if a producer wrote it. A copy goes to a queue that the retry topic has; RocketMQ
    uses retryQueueNums, also after it was raised. A message in the retry, dead-letter or progress topic of another
    group is refused with 16, if originTopic does not name that topic. The check for a missing master never refuses,
    since a broker here is always a master. RocketMQ's hooks, Java code in its own process that may change this answer,
    do not exist: in tests an interceptor does that.
    """
    header = request.header(SendBackRequest)
    node = request.node
    group = node.rules.group(header.group)
    if not node.switches.is_writable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{node.address}] sending message is forbidden")
    if group.retry_queues <= 0:
        raise Refusal(ResponseCode.NO_PERMISSION, f"group {group.name} has no retry queue: set retryQueueNums above 0")
    queue, original = _original(node, header.offset)
    if _is_anothers(original.topic, header.origin_topic or "", group.name):
        raise Refusal(ResponseCode.NO_PERMISSION, f"the message at {header.offset} is another group's")
    copy = _copy(node, original)
    level, is_dead = _fate(request, header, group, original.reconsume_times)
    target = _target(node, group, is_dead=is_dead)
    if not target.is_writable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{target.name}] sending message is forbidden")
    if node.retention.is_full:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE")  # the name of the store's status, as there
    number = node.world.chance.below(max(target.write_queues, 1))
    properties = {**copy.properties, DELAY_LEVEL: str(level)}
    copy = replace(copy, topic=target.name, queue_id=number, properties=properties)
    try:
        change = write(node, copy, Level(level) if level else None)
    except Refusal as refusal:
        # With what says where it came from it no longer fits into a record: the name of the store's status, as there.
        raise Refusal(ResponseCode.SYSTEM_ERROR, "PROPERTIES_SIZE_EXCEEDED") from refusal
    key = Key(node.name, group.name, properties[ORIGIN_MESSAGE_ID], original.reconsume_times)

    def once(transaction: Transaction) -> Planned | None:
        now_ms = _forget_old(transaction, node)
        if sent_back.is_repeated(transaction.connection, key, now_ms):
            sometimes("broker: a send-back was repeated")
            return None
        planned = change(transaction)
        message = queue.base + original.queue_offset
        sent_back.note(transaction.connection, key, message, now_ms=now_ms, due_ms=planned.due_ms)
        return planned

    def answer(planned: Planned | None) -> RemotingCommand:
        if planned is not None:
            written(node, planned)
        return ok()

    return AfterCommit(once, answer)


def _original(node: Node, place: int) -> tuple[Queue, Record]:
    found = node.store.log.at_place(place)
    if found is None or found[0].broker != node.name:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {place}")
    return found[0], decode(found[1])


def _is_anothers(topic: str, named: str, group: str) -> bool:
    """Whether a message lies in the retries, dead letters or progress of a group that the request does not name: its
    rights are asked for by what a request names.
    """
    owner = group_of(topic)
    return owner not in {None, group, group_of(named)} and not topic.startswith(pop_retry_topic(group, ""))


def _copy(node: Node, original: Record) -> Record:
    """The message once more, with where it came from and one attempt more."""
    properties = dict(original.properties)
    # Only a message that we put on a retry topic ourselves says truly where it came from.
    if RETRY_TOPIC not in properties or not original.topic.startswith(RETRY_PREFIX):
        properties[RETRY_TOPIC] = original.topic
    if ORIGIN_MESSAGE_ID not in properties or not original.topic.startswith(RETRY_PREFIX):
        properties[ORIGIN_MESSAGE_ID] = offset_message_id(original.store_host, original.commit_log_offset)
    properties[WAIT_STORE] = "false"  # nobody waits for a copy to be replicated
    attempts = original.reconsume_times + 1
    return replace(original, properties=properties, reconsume_times=attempts, store_host=host_of(node.address))


def _fate(request: Request, header: SendBackRequest, group: StoredGroup, reconsumed: int) -> tuple[int, bool]:
    """The delay level, and whether the message is given up."""
    if reconsumed >= retries_max_of(request, group, header.max_reconsume_times) or header.delay_level < 0:
        return 0, True
    return header.delay_level or FIRST_RETRY_LEVEL + reconsumed, False


def _target(node: Node, group: StoredGroup, *, is_dead: bool) -> Topic:
    return node.rules.dead_letter_topic(group.name) if is_dead else node.rules.retry_topic(group.name)


def _forget_old(transaction: Transaction, node: Node) -> int:
    """Let go of what was sent back too long ago to be asked for again; the time, by the schedule's clock.

    A wall clock that was set forward must not forget what was just done: its steps are taken out, and what was written
    before this process began is kept for as long again, for nobody knows how the clock was set meanwhile.
    """
    now_ms, kept_ms = node.delays.now_ms(), node.settings.sent_back_kept_ms
    if node.world.clock.monotonic_ms() - node.began_ms >= kept_ms:
        sent_back.forget_older(transaction.connection, now_ms - kept_ms)
    return now_ms
