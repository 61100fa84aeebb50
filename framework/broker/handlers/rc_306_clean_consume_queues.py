"""CLEAN_EXPIRED_CONSUMEQUEUE (306): there are no files of consume queues to clean.

Differences: nothing is done, and the answer is 0.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(_: Request) -> Answer:
    return ok()
