"""SEND_REPLY_MESSAGE (324): a reply, handed on to the client that asked (326); answered when that has taken it.

Differences: replies are not stored, as by a RocketMQ with storeReplyMessageEnable=false.
"""

from __future__ import annotations

from framework.broker.replies import reply
from framework.broker.request import Answer, Request
from framework.wire.requests.send import SendRequest


def handle(request: Request) -> Answer:
    return reply(request, request.header(SendRequest))
