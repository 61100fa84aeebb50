"""UPDATE_NAMESRV_CONFIG (318): settings of the name server cannot be changed while it runs: 29.

Differences: RocketMQ takes some. Here those that matter are the command line, and 100 for the order of topics.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, refuse
from framework.wire.codes import ResponseCode


def handle(_: Request) -> Answer:
    return refuse(
        ResponseCode.INVALID_PARAMETER,
        "the name server of this broker has no settings that can be changed while it runs; restart it with others",
    )
