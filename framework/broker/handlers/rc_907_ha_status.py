"""GET_BROKER_HA_STATUS (907): the broker's replicas: it is a master, and there are none.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire import dialect


def handle(request: Request) -> Answer:
    return ok(
        body=dialect.dumps(
            {
                "haConnectionInfo": [],
                "inSyncSlaveNums": 0,
                "master": True,
                "masterCommitLogMaxOffset": request.node.store.writer.place,
            }
        )
    )
