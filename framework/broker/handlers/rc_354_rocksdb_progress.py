"""CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354): whether queues were copied to RocksDB: all is well.

Differences: there is no RocksDB and nothing is looked at.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire import dialect


def handle(request: Request) -> Answer:
    return ok(body=dialect.dumps({"checkResult": {}, "checkStatus": 0}))
