"""LITE_PULL_MESSAGE (361): as 11, from consumers that pull by themselves; 16 where litePullMessageEnable is off.

Differences: those of 11.
"""

from __future__ import annotations

from framework.broker.handlers import rc_011_pull_message
from framework.broker.request import Answer, Refusal, Request
from framework.wire.codes import ResponseCode


def handle(request: Request) -> Answer:
    node = request.node
    if not node.switches.pulls_lite:
        remark = f"the broker[{node.address}] for lite pull consumer is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark, rc_011_pull_message.forbidden(1))
    return rc_011_pull_message.handle(request)
