"""UPDATE_BROKER_CONFIG (25): change switches of the running broker; kept over a restart.

Differences: only switches that are acted on can be changed; any other name, and a value that is none, is refused with
29 and what could be used. RocketMQ takes every name and most have no effect before a restart.
"""

from __future__ import annotations

from framework.broker.properties_text import decode
from framework.broker.request import Answer, Refusal, Request, when_saved
from framework.wire.codes import ResponseCode


def handle(request: Request) -> Answer:
    switches = request.node.switches
    wishes = decode(request.command.body)
    for name, value in wishes.items():
        if (wrong := switches.wrong(name, value)) is not None:
            raise Refusal(ResponseCode.INVALID_PARAMETER, wrong)
    for name, value in wishes.items():
        switches.put(name, value)
    return when_saved()
