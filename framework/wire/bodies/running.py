"""What a running consumer tells an administrator, and what came of a message that he handed to it."""

from __future__ import annotations

from collections.abc import Mapping

from framework.model.queue import MessageQueue
from framework.wire.bodies.enums import ConsumeResult
from framework.wire.bodies.heartbeat import SubscriptionData
from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire

# Properties that mqadmin looks for; any others are shown as they are.
NAME_SERVERS = "PROP_NAMESERVER_ADDR"
THREADS = "PROP_THREADPOOL_CORE_SIZE"
IS_ORDERLY = "PROP_CONSUMEORDERLY"
CONSUME_TYPE = "PROP_CONSUME_TYPE"
CLIENT_VERSION = "PROP_CLIENT_VERSION"
STARTED_AT = "PROP_CONSUMER_START_TIMESTAMP"
# Ours, which members of ours ask each other for.
HOST = "app.host"
SESSION = "app.session"
ATTENDANCE = "group.attendance"
PAUSED = "group.paused"
HELD = "group.held"
SUCCESS_AGO_MS = "group.success_ago_ms"
RUNNING = "group.running"
OLDEST_MS = "group.oldest_ms"
HANGING = "group.hanging"
RETRIES_WAITING = "group.retries_waiting"


class ProcessQueueInfo(Body):
    """One owned queue. `droped` is RocketMQ's spelling."""

    commit_offset: int = 0
    cached_offset_min: int = wire("cachedMsgMinOffset", default=0)
    cached_offset_max: int = wire("cachedMsgMaxOffset", default=0)
    cached_count: Int32 = wire("cachedMsgCount", default=0)
    cached_mib: Int32 = wire("cachedMsgSizeInMiB", default=0)
    transaction_offset_min: int = wire("transactionMsgMinOffset", default=0)
    transaction_offset_max: int = wire("transactionMsgMaxOffset", default=0)
    transaction_count: Int32 = wire("transactionMsgCount", default=0)
    is_locked: bool = wire("locked", default=False)
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    is_dropped: bool = wire("droped", default=False)
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class PopQueueInfo(Body):
    wait_ack_count: Int32 = 0
    is_dropped: bool = wire("droped", default=False)
    last_pop_timestamp: int = 0


class ConsumeStatus(Body):
    """One topic's rates: milliseconds a pull or message, per second, and failures of the last hour."""

    pull_rt: float = wire("pullRT", default=0.0)
    pull_tps: float = wire("pullTPS", default=0.0)
    consume_rt: float = wire("consumeRT", default=0.0)
    consume_ok_tps: float = wire("consumeOKTPS", default=0.0)
    consume_failed_tps: float = wire("consumeFailedTPS", default=0.0)
    consume_failed_count: int = wire("consumeFailedMsgs", default=0)


class RunningInfo(Body):
    """The answer to RunningInfoRequest."""

    properties: Mapping[str, str] = wire("properties", default_factory=dict)
    subscriptions: tuple[SubscriptionData, ...] = wire("subscriptionSet", default=())
    queues: Mapping[MessageQueue, ProcessQueueInfo] = wire("mqTable", default_factory=dict)
    pop_queues: Mapping[MessageQueue, PopQueueInfo] = wire("mqPopTable", default_factory=dict)
    statuses: Mapping[str, ConsumeStatus] = wire("statusTable", default_factory=dict)
    user_info: Mapping[str, str] = wire("userConsumerInfo", default_factory=dict)
    stack: str | None = wire("jstack", default=None)


# Results of a direct consumption.
SUCCESS = "CR_SUCCESS"
LATER = "CR_LATER"
ROLLBACK = "CR_ROLLBACK"
COMMIT = "CR_COMMIT"
THREW = "CR_THROW_EXCEPTION"


class DirectResult(Body):
    """The answer to ConsumeDirectlyRequest."""

    result: ConsumeResult = wire("consumeResult")
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_ms: int = wire("spentTimeMills", default=0)
