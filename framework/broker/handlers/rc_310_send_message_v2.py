"""SEND_MESSAGE_V2 (310): as 10, with the header's names cut to one letter. What modern clients send.

Differences: those of 10.
"""

from __future__ import annotations

from framework.broker.handlers.rc_320_send_batch import send_batch
from framework.broker.request import Answer, Request
from framework.broker.sending import send, sent_of
from framework.wire.fields import from_fields
from framework.wire.requests.send import SendRequestV2


def handle(request: Request) -> Answer:
    header = from_fields(SendRequestV2, request.command.fields)
    return send_batch(request, sent_of(header)) if header.batch else send(request, sent_of(header))
