"""Running info: a Snapshot as mqadmin and the Dashboard want to see a consumer.

Everything comes from the snapshot, which holds no secrets; nothing is asked of the live application here.
"""

from __future__ import annotations

from framework.model.snapshot import BreakerSnapshot, ClockSnapshot, GroupSnapshot, Pace, QueueSnapshot, Snapshot
from framework.runtime.joining import attendance_text
from framework.runtime.pauses import pause_text
from framework.wire.bodies.heartbeat import BROADCASTING, CLUSTERING, PASSIVELY, SubscriptionData
from framework.wire.bodies.running import (
    ATTENDANCE,
    CLIENT_VERSION,
    CONSUME_TYPE,
    HANGING,
    HELD,
    HOST,
    IS_ORDERLY,
    NAME_SERVERS,
    OLDEST_MS,
    PAUSED,
    RETRIES_WAITING,
    RUNNING,
    SESSION,
    STARTED_AT,
    SUCCESS_AGO_MS,
    THREADS,
    ConsumeStatus,
    ProcessQueueInfo,
    RunningInfo,
)
from framework.wire.command import OUR_VERSION_NAME

# Our settings that mean what one of the Java client's does: theirs -> ours.
JAVA_NAMES = {
    "consumeThreadMin": "concurrency",
    "consumeThreadMax": "concurrency",
    "maxReconsumeTimes": "max_retries",
    "pullBatchSize": "pull_batch",
    "pullThresholdForQueue": "cache_count",
    "allocateMessageQueueStrategy": "allocation",
}


def running_info(picture: Snapshot, group_name: str, *, stacks: str | None = None) -> RunningInfo:
    """What to answer about one group of the picture."""
    (group,) = (each for each in picture.groups if each.group == group_name)
    return RunningInfo(
        properties=_properties(picture, group),
        subscriptions=tuple(
            sorted(map(SubscriptionData.of, group.subscriptions), key=lambda subscription: subscription.topic)
        ),
        queues={queue.place: _queue(queue) for queue in group.queues},
        statuses={topic: _status(pace) for topic, pace in sorted(group.paces.items())},
        stack=stacks,
    )


def _properties(picture: Snapshot, group: GroupSnapshot) -> dict[str, str]:
    host, _, instance = picture.member.partition("@")
    servers = ";".join(picture.name_servers)
    settings = group.settings
    return {
        NAME_SERVERS: f"{servers};",
        THREADS: settings.get("concurrency", "0"),
        IS_ORDERLY: "true" if group.is_orderly else "false",
        CONSUME_TYPE: PASSIVELY,
        CLIENT_VERSION: OUR_VERSION_NAME,
        STARTED_AT: str(picture.started_ms),
        "clientIP": host,
        "consumeFromWhere": group.consume_from,
        "consumerGroup": group.group,
        "instanceName": instance,
        "language": "PYTHON",
        "messageModel": BROADCASTING if group.is_broadcasting else CLUSTERING,
        "namesrvAddr": servers,
        **{theirs: settings[ours] for theirs, ours in JAVA_NAMES.items() if ours in settings},
        **{f"settings.{name}": text for name, text in settings.items()},
        "app.name": picture.name,
        "app.budget": f"{picture.budget_used} of {picture.budget_limit} bytes",
        "app.clock": _clock(picture.clock),
        HOST: picture.host,
        SESSION: picture.session,
        ATTENDANCE: attendance_text(group.absent, group.present, group.flaps),
        **({PAUSED: pause_text(group.pause)} if group.is_paused else {}),
        **({HELD: "; ".join(map(_breaker, group.breakers))} if group.breakers else {}),
        "group.balanced": str(group.is_balanced).lower(),
        **{f"group.{name}": str(getattr(group, name)) for name in _COUNTS},
        **{name: str(number) for name, number in _work(group).items() if number is not None},
    }


def _work(group: GroupSnapshot) -> dict[str, int | None]:
    """How its handlers do, for whoever asks from outside. What is not there is not said."""
    agos_ms = [pace.success_ago_ms for pace in group.paces.values() if pace.success_ago_ms is not None]
    return {
        SUCCESS_AGO_MS: min(agos_ms, default=None),
        RUNNING: group.running,
        OLDEST_MS: group.oldest_ms,
        HANGING: group.hanging,
        RETRIES_WAITING: group.retries_waiting,
    }


def _breaker(breaker: BreakerSnapshot) -> str:
    """Why a topic's queues are held. Nothing in it changes with time: members that say the same are shown as one."""
    return f"breaker of {breaker.topic}, mostly {breaker.reason.rpartition(' (')[0]}"


def _clock(clock: ClockSnapshot) -> str:
    if not clock.brokers:
        return "the brokers' is not known"
    return f"{clock.low_ms} to {clock.high_ms} ms ahead of {', '.join(clock.brokers)}"


_COUNTS = ("handled", "retried", "dead_lettered", "dropped", "late")


def _queue(queue: QueueSnapshot) -> ProcessQueueInfo:
    return ProcessQueueInfo(
        commit_offset=max(queue.committable, 0),
        cached_offset_min=max(queue.offset_min, 0),
        cached_offset_max=max(queue.offset_max, 0),
        cached_count=queue.messages,
        cached_mib=queue.bytes >> 20,
        is_locked=queue.is_locked,
        last_lock_timestamp=queue.locked_ms,
        is_dropped=queue.is_retiring,
        last_pull_timestamp=queue.pulled_ms,
        last_consume_timestamp=queue.handled_ms,
    )


def _status(pace: Pace) -> ConsumeStatus:
    return ConsumeStatus(
        pull_rt=pace.pull_ms,
        pull_tps=pace.pulled_a_second,
        consume_rt=pace.handle_ms,
        consume_ok_tps=pace.handled_a_second,
        consume_failed_tps=pace.failed_a_second,
        consume_failed_count=pace.failed_in_an_hour,
    )
