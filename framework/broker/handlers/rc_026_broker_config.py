"""GET_BROKER_CONFIG (26): the settings that this broker uses.

Differences: only those that mean something here; RocketMQ lists some five hundred.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.properties_text import encode
from framework.broker.request import Answer, Request, ok
from framework.net.address import parse_address
from framework.wire.fields import to_fields
from framework.wire.requests.admin import BrokerConfigAnswer


def handle(request: Request) -> Answer:
    node = request.node
    version = f'{{"counter":{node.store.values.table.changes},"stateVersion":0,"timestamp":{node.started_ms}}}'
    return ok(to_fields(BrokerConfigAnswer(version=version)), encode(settings_of(node)))


def settings_of(node: Node) -> dict[str, str]:
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
