"""UPDATE_BROKER_CONFIG (25): change switches of the running broker; kept over a restart.

Differences: only switches can be changed; a value that a switch cannot have is refused with 29. Any other setting is
answered with 0 and ignored, and the log says so. RocketMQ takes every name, and most have no effect before a restart.
"""

from __future__ import annotations

import structlog

from framework.broker.properties_text import decode
from framework.broker.request import Answer, Refusal, Request, when_saved
from framework.broker.switches import NAMES
from framework.errors import nearest, shorten
from framework.wire.codes import ResponseCode

log = structlog.get_logger()

_LISTED_MAX = 10
# As there: what would lead a broker to other files.
_NEVER = frozenset({"brokerConfigPath", "configBlackList", "rocketmqHome"})


def handle(request: Request) -> Answer:
    switches = request.node.switches
    wishes = decode(request.command.body)
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
