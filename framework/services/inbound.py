"""What brokers ask of us. Anything else is answered "not supported", with its number."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from framework.net.channel import Channel
from framework.wire.codes import RequestCode, ResponseCode, request_name
from framework.wire.command import Command

log = structlog.get_logger()


class Inbound:
    """The table of requests that brokers send to consumers. Each is answered in the turn in which it came."""

    def __init__(self, members_changed: Callable[[str], None]) -> None:
        self._members_changed = members_changed

    def __call__(self, channel: Channel, command: Command) -> None:
        """Called by the channel, on its hot path: never awaits, never raises for what a broker sent."""
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._members_changed(command.fields.get("consumerGroup", ""))
            return
        remark = f"{request_name(command.code)} is not supported by this client"
        log.debug("request refused", peer=channel.peer, code=command.code)
        channel.answer(command, Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
