"""The broker itself: its settings, cleaning up, and parts of RocketMQ's that it does not have."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from framework.broker.answers import Answer, Refusal, ok, refuse, when_saved
from framework.broker.node import Node
from framework.broker.request import Request
from framework.broker.switches import NAMES
from framework.errors import ProtocolError, bare, nearest, shorten
from framework.net.address import parse_address
from framework.wire import dialect
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.admin import BrokerConfigAnswer, ReadAheadRequest

log = structlog.get_logger()

_LISTED_MAX = 10
# As there: what would lead a broker to other files.
_NEVER = frozenset({"brokerConfigPath", "configBlackList", "rocketmqHome"})


def update_broker_config(request: Request) -> Answer:
    """UPDATE_BROKER_CONFIG (25): change switches of the running broker; kept over a restart.

    Differences: only switches can be changed; a value that a switch cannot have is refused with 29. Any other setting
    is answered with 0 and ignored, and the log says so. RocketMQ takes every name, and most have no effect before a
    restart.
    """
    switches = request.node.switches
    wishes = _from_lines(request.command.body)
    if not _NEVER.isdisjoint(wishes):
        raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    known = {name: value for name, value in wishes.items() if name in NAMES}
    for name, value in known.items():
        if (wrong := switches.wrong(name, value)) is not None:
            raise Refusal(ResponseCode.INVALID_PARAMETER, wrong)
    for name, value in known.items():
        switches.put(name, value)
    if ignored := [name for name in wishes if name not in known]:
        log.warning(
            "settings ignored",
            broker=request.node.name,
            settings=shorten(", ".join(ignored[:_LISTED_MAX]), 300),
            reason=f"a running broker changes only {', '.join(NAMES)}{nearest(ignored[0], NAMES)}",
        )
    return when_saved()


def broker_config(request: Request) -> Answer:
    """GET_BROKER_CONFIG (26): the settings that this broker uses.

    Differences: only those that mean something here; RocketMQ lists some five hundred.
    """
    node = request.node
    version = f'{{"counter":{node.store.values.table.changes},"stateVersion":0,"timestamp":{node.started_ms}}}'
    return ok(to_fields(BrokerConfigAnswer(version=version)), _to_lines(_settings_of(node)))


def _settings_of(node: Node) -> dict[str, str]:
    """Fixed ones, then those that 25 changes."""
    host, port = parse_address(node.address)
    settings = node.settings
    return {
        "brokerClusterName": settings.cluster,
        "brokerName": node.name,
        "brokerId": "0",
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "SYNC_FLUSH",
        "brokerIP1": host,
        "listenPort": str(port),
        "maxMessageSize": str(settings.body_bytes_max),
        "defaultTopicQueueNums": str(settings.topic_queues),
        "maxTransferCountOnMessageInMemory": str(settings.pull_count_max),
        "maxTransferBytesOnMessageInMemory": str(settings.pull_bytes_max),
        "messageDelayLevel": " ".join(f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms" for ms in settings.delays_ms),
        "timerWheelEnable": "true",
        "timerMaxDelaySec": str(settings.timer_ms_max // 1000),
        "fileReservedTime": f"{settings.kept_ms / 3_600_000:g}",
        "diskMaxUsedSpaceRatio": f"{settings.disk_clean_ratio * 100:g}",
        "useServerSideResetOffset": "true",
        "messageIndexEnable": "true",
        **node.switches.texts(),
    }


def update_name_server_config(_: Request) -> Answer:
    """UPDATE_NAMESRV_CONFIG (318): settings of the name server cannot be changed while it runs: 29.

    Differences: RocketMQ takes some. Here those that matter are the command line, and 100 for the order of topics.
    """
    return refuse(
        ResponseCode.INVALID_PARAMETER,
        "the name server of this broker has no settings that can be changed while it runs; restart it with others",
    )


def name_server_config(request: Request) -> Answer:
    """GET_NAMESRV_CONFIG (319): the settings that the name server uses.

    Differences: only those that mean something here.
    """
    host, port = parse_address(request.node.neighbours()[0].address)
    return ok(
        body=_to_lines(
            {
                "bindAddress": host,
                "listenPort": str(port),
                "orderMessageEnable": "true",
                "clusterTest": "false",
            }
        )
    )


def clean_up(request: Request) -> Answer:
    """Remove what is left of deleted topics and of their queues.

    Differences: queues are no files here. Deleting a topic removes its messages anyway, bit by bit, so this only
    continues where that was interrupted, after the answer, which is 0.
    """
    request.node.store.sweep.start()
    return ok()


def delete_commit_log(request: Request) -> Answer:
    """DELETE_EXPIRED_COMMITLOG (329): remove messages past their age now, and not within the hour.

    Differences: message by message and not file by file, bit by bit, after the answer, which is 0.
    """
    request.node.retention.clean()
    return ok()


def ha_status(request: Request) -> Answer:
    """GET_BROKER_HA_STATUS (907): the broker's replicas: it is a master, and there are none."""
    return ok(
        body=dialect.dumps(
            {
                "haConnectionInfo": [],
                "inSyncSlaveNums": 0,
                "master": True,
                "masterCommitLogMaxOffset": request.node.store.writer.place,
            }
        )
    )


def cold_data_config(_: Request) -> Answer:
    """How much of old messages a group may read is set, or forgotten: 0.

    Differences: no group is slowed down for what it reads, so nothing is kept.
    """
    return ok()


def cold_data_info(request: Request) -> Answer:
    """GET_COLD_DATA_FLOW_CTR_INFO (2003): which groups read old messages: none.

    Differences: nothing is counted and no group is slowed down, so the tables are empty.
    """
    return ok(body=dialect.dumps({"configTable": {}, "globalAcc": 0, "runtimeTable": {}}))


def read_ahead(request: Request) -> Answer:
    """SET_COMMITLOG_READ_MODE (2004): how the log is read ahead: 0.

    Differences: the log is no file that could be read ahead, so nothing is set.
    """
    mode = request.header(ReadAheadRequest).mode
    return ok(remark=f"set commitlog readahead mode success, mode: {bare(mode)}")


def rocksdb_progress(request: Request) -> Answer:
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354): whether queues were copied to RocksDB: all is well.

    Differences: there is no RocksDB and nothing is looked at.
    """
    return ok(body=dialect.dumps({"checkResult": {}, "checkStatus": 0}))


def lite_info(request: Request) -> Answer:
    """GET_BROKER_LITE_INFO (200074): how many lite topics and subscriptions there are: none.

    Differences: there are no lite topics.
    """
    figures = ("currentLmqNum", "cqTableSize", "eventMapSize", "liteSubscriptionCount", "maxLmqNum", "offsetTableSize")
    empty = {"groupMeta": {}, "orderInfoCount": 0, "storeType": "default", "topicMeta": {}}
    return ok(body=dialect.dumps({**dict.fromkeys(figures, 0), **empty}))


def _to_lines(values: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


def _from_lines(body: bytes) -> dict[str, str]:
    """The lines' names and values; comments and empty lines are left out."""
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"settings are not UTF-8: {error}") from error
    values = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", "!")):
            values[name.strip()] = value.strip()
    return values
