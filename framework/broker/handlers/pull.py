"""Pulls: messages of one queue from an offset on."""

from __future__ import annotations

from functools import partial

from framework.broker.answers import Answer, Hold, Refusal
from framework.broker.filters import TAG, Wanted, check_kind, read_first, read_wanted
from framework.broker.members import BROADCASTING
from framework.broker.request import Request
from framework.broker.store.queues import COMMIT_MAX, Queue
from framework.broker.work import Work
from framework.errors import ProtocolError, bare, shorten
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import CLASS_FILTER, COMMIT_OFFSET, SUBSCRIPTION, SUSPEND

_BYTES_MIN = 100

FOUND = "FOUND"
NO_MESSAGE = "NO_MESSAGE_IN_QUEUE"
TOO_SMALL = "OFFSET_TOO_SMALL"
AT_END = "OFFSET_OVERFLOW_ONE"
PAST_END = "OFFSET_OVERFLOW_BADLY"
RESET = "OFFSET_RESET"
NONE_MATCHES = "NO_MATCHED_MESSAGE"


def pull_message(request: Request) -> Answer:
    """PULL_MESSAGE (11): messages of one queue from an offset on, or a hold until one comes.

    Differences: a hold ends exactly at its deadline, or at once if that is 0. RocketMQ looks every 5 s: it answers up
    to 5 s late, and it answers a pull early (with 20) if messages came that its filter does not let through. A message
    ends a hold also with longPollingEnable off. There is no slave to suggest. Class filters are refused with 23. SQL92
    is on by default, where a stock broker's is off. A damaged message is answered with 1 and its name, each time;
    RocketMQ would serve its bytes. A reset of the group answers its held pulls at once, and the commit that comes with
    the pull that takes the reset is ignored; RocketMQ lets it overwrite the new offset.
    """
    node = request.node
    # Fields are read by hand here: a pull is the one request whose cost shows.
    fields = request.command.fields
    try:
        group, topic_name = fields["consumerGroup"], fields["topic"]
        number, offset = int(fields["queueId"]), int(fields["queueOffset"])
        count, flag = int(fields["maxMsgNums"]), int(fields["sysFlag"])
        commit, version = int(fields["commitOffset"]), int(fields["subVersion"])
        timeout_ms = int(fields["suspendTimeoutMillis"])
        size = int(fields.get("maxMsgBytes", "2147483647"))
    except KeyError as error:
        raise ProtocolError(f"PullMessageRequestHeader: field {error.args[0]} is missing") from None
    except ValueError as error:
        raise ProtocolError(f"PullMessageRequestHeader: {shorten(str(error))}") from None

    _check(request, group, topic_name, number)
    subscription = _subscription(request, group, topic_name, flag, version)
    if not subscription.is_read:
        return read_first(subscription, partial(pull_message, request))
    _check_understood(subscription, group, topic_name, flag)
    if node.offsets.resets and (reset := node.offsets.take_reset(group, topic_name, number)) is not None:
        node.save_soon()
        node.goes_on(group, topic_name, number, reset)
        return _reset(node.queue(topic_name, number), reset)
    if flag & COMMIT_OFFSET:
        _commit(request, group, topic_name, number, commit)

    queue = node.queue(topic_name, number)
    low, end = (0, 0) if queue is None else (queue.low, queue.end)
    if queue is None or end == 0:
        code = ResponseCode.PULL_OFFSET_MOVED if offset != 0 else ResponseCode.PULL_NOT_FOUND
        status, following = NO_MESSAGE, 0
    elif offset < low:
        code, status, following = ResponseCode.PULL_OFFSET_MOVED, TOO_SMALL, low
    elif offset == end:
        code, status, following = ResponseCode.PULL_NOT_FOUND, AT_END, offset
    elif offset > end:
        code, status, following = ResponseCode.PULL_OFFSET_MOVED, PAST_END, end
    else:
        limits = node.settings
        return _read(
            request, group, queue, offset, subscription,
            max(min(count, limits.pull_count_max), 1), min(max(size, _BYTES_MIN), limits.pull_bytes_max),
        )  # fmt: skip
    node.goes_on(group, topic_name, number, following)
    if code == ResponseCode.PULL_NOT_FOUND and flag & SUSPEND and timeout_ms > 0 and not request.was_held:
        return _hold(request, topic_name, number, timeout_ms, subscription)
    return _answer(code, status, following, low, end)


def _hold(request: Request, topic: str, number: int, timeout_ms: int, subscription: Wanted) -> Hold:
    node = request.node
    if not node.holds.has_room(request.client):
        raise Refusal(ResponseCode.SYSTEM_BUSY, "[OVERLOAD] too many pulls are waiting; ask again later")
    if not node.switches.holds_pulls:
        timeout_ms = node.settings.short_poll_ms
    return Hold(topic, number, timeout_ms, subscription.hashes, subscription.condition)


def _commit(request: Request, group: str, topic: str, number: int, offset: int) -> None:
    """The one that rides on a pull, once. One that cannot be kept is no reason to refuse the pull."""
    node = request.node
    if not request.was_held and 0 <= offset <= COMMIT_MAX and node.offsets.has_room(group, topic, number):
        node.offsets.put(group, topic, number, offset)
        node.save_soon()


def _reset(queue: Queue | None, offset: int) -> RemotingCommand:
    low, end = (0, 0) if queue is None else (queue.low, queue.end)
    return _answer(ResponseCode.PULL_OFFSET_MOVED, RESET, offset, low, end)


def _read(
    request: Request, group: str, queue: Queue, offset: int, subscription: Wanted, count: int, size: int
) -> RemotingCommand:
    node = request.node
    records, next_offset = read_wanted(
        node.store.log, queue, offset, subscription, Work(), count_max=count, bytes_max=size
    )
    node.goes_on(group, queue.topic, queue.number, next_offset)
    if not records:
        return _answer(ResponseCode.PULL_RETRY_IMMEDIATELY, NONE_MATCHES, next_offset, queue.low, queue.end)
    answer = _answer(ResponseCode.SUCCESS, FOUND, next_offset, queue.low, queue.end)
    answer.body = b"".join(records)
    node.gave(group, queue.topic, len(records), len(answer.body))
    return answer


def _answer(code: int, status: str, next_offset: int, low: int, end: int) -> RemotingCommand:
    return RemotingCommand(
        code,
        {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(next_offset),
            "minOffset": str(low),
            "maxOffset": str(end),
        },
        remark=status,
    )


def _forbidden(kind: int) -> dict[str, str]:
    """Who forbade it: 1 the broker, 2 the group, 3 the topic, 4 broadcasting, 5 the group in this topic."""
    return {"forbiddenType": str(kind)}


def _check(request: Request, group_name: str, topic_name: str, number: int) -> None:
    """Group, topic and queue, in RocketMQ's order."""
    node = request.node
    rules = node.rules
    if not node.switches.is_readable:
        remark = f"the broker[{node.address}] pulling message is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark, _forbidden(1))
    group = rules.group(group_name)
    if not group.may_consume:
        raise Refusal(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group_name}", _forbidden(2))
    if group.forbidden and topic_name in group.forbidden:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the consumer's group/topic[{group_name}/{topic_name}] forbidden",
            _forbidden(5),
        )
    topic = rules.topics.get(topic_name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(topic_name)}] not exist, apply first please!")
    if not topic.is_readable:
        remark = f"the topic[{topic_name}] pulling message is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark, _forbidden(3))
    if not 0 <= number < topic.read_queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{number}] is illegal, topic:[{topic_name}] topicConfig.readQueueNums:[{topic.read_queues}]"
            f" consumer:[{request.client.peer}]",
        )


def _subscription(request: Request, group_name: str, topic: str, flag: int, version: int) -> Wanted:
    """What is wanted: said by the pull itself, or by the group's last heartbeat."""
    if flag & SUBSCRIPTION:
        fields = request.command.fields
        subscription = Wanted(
            topic, fields.get("subscription"), kind=fields.get("expressionType"), version=version,
            is_strict=request.node.settings.is_sql_strict,
        )  # fmt: skip
    else:
        group = request.node.members.find(group_name)
        if group is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        if group.message_model == BROADCASTING and not request.node.rules.group(group_name).may_broadcast:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the consumer's group[{group_name}] can not consume by broadcast way",
                _forbidden(4),
            )
        known = group.wanted.get(topic)
        if known is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist: {group_name}, {topic}"
            )
        # A newer pull than the heartbeat known: the heartbeat is on its way. An older one is served.
        if known.version < version:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, f"the consumer's subscription not latest: {known.version}"
            )
        subscription = known
    if flag & CLASS_FILTER:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "class filters are not supported")
    if subscription.kind == TAG:
        return subscription
    check_kind(request.node.switches, subscription.kind)
    return subscription


def _check_understood(subscription: Wanted, group_name: str, topic: str, flag: int) -> None:
    if not subscription.mistake:
        return
    if flag & SUBSCRIPTION:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {subscription.mistake}"
        )
    raise Refusal(
        ResponseCode.FILTER_DATA_NOT_EXIST,
        f"the consumer's consumer filter data not exist: {group_name}, {topic}: {subscription.mistake}",
    )


def lite_pull_message(request: Request) -> Answer:
    """LITE_PULL_MESSAGE (361): as 11, from consumers that pull by themselves; 16 where litePullMessageEnable is off.

    Differences: those of 11.
    """
    node = request.node
    if not node.switches.pulls_lite:
        remark = f"the broker[{node.address}] for lite pull consumer is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark, _forbidden(1))
    return pull_message(request)
