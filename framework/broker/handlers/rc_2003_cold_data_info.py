"""GET_COLD_DATA_FLOW_CTR_INFO (2003): which groups read old messages: none.

Differences: nothing is counted and no group is slowed down, so the tables are empty.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire import dialect


def handle(request: Request) -> Answer:
    return ok(body=dialect.dumps({"configTable": {}, "globalAcc": 0, "runtimeTable": {}}))
