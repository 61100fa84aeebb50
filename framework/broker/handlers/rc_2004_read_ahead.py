"""SET_COMMITLOG_READ_MODE (2004): how the log is read ahead: 0.

Differences: the log is no file that could be read ahead, so nothing is set.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.errors import bare
from framework.wire.requests.admin import ReadAheadRequest


def handle(request: Request) -> Answer:
    mode = request.header(ReadAheadRequest).mode
    return ok(remark=f"set commitlog readahead mode success, mode: {bare(mode)}")
