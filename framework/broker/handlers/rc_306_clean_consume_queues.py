"""CLEAN_EXPIRED_CONSUMEQUEUE (306): remove what is left of queues whose messages are gone.

Differences: queues are no files here: only rows of deleted topics are removed, bit by bit, after the answer, which is
0.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(request: Request) -> Answer:
    request.node.store.sweep.start()
    return ok()
