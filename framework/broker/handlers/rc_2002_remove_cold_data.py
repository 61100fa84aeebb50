"""REMOVE_COLD_DATA_FLOW_CTR_CONFIG (2002): forget what 2001 has set: 0.

Differences: as 2001, there is nothing to forget.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(request: Request) -> Answer:
    return ok()
