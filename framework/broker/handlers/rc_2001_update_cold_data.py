"""UPDATE_COLD_DATA_FLOW_CTR_CONFIG (2001): how much of old messages a group may read: 0.

Differences: no group is slowed down for what it reads, so nothing is kept.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(request: Request) -> Answer:
    return ok()
