"""SEND_MESSAGE (10): one message, stored before it is answered. Also one batch, by the header's own flag.

Differences: always durable, so never 10, 11 or 12; where the store fails the answer is 14. A half message
without PGROUP, which no producer could end, is refused with 13; one in a batch, or with the bit in sysFlag alone, with
16.
"""

from __future__ import annotations

from framework.broker.handlers.rc_320_send_batch import send_batch
from framework.broker.request import Answer, Request
from framework.broker.sending import send, sent_of
from framework.wire.requests.send import SendRequest


def handle(request: Request) -> Answer:
    header = request.header(SendRequest)
    return send_batch(request, sent_of(header)) if header.batch else send(request, sent_of(header))
