"""SEND_REPLY_MESSAGE_V2 (325): as 324, with the header's names cut to one letter.

Differences: those of 324.
"""

from __future__ import annotations

from framework.broker.replies import reply
from framework.broker.request import Answer, Request
from framework.wire.requests.send import SendRequestV2


def handle(request: Request) -> Answer:
    return reply(request, request.header(SendRequestV2))
