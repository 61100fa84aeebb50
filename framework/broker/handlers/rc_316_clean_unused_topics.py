"""CLEAN_UNUSED_TOPIC (316): a queue without messages takes no room, so there is nothing to clean.

Differences: nothing is done, and the answer is 0.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(_: Request) -> Answer:
    return ok()
