"""SET_COMMITLOG_READ_MODE (2004): how the log is read ahead: 0.

Differences: the log is no file that could be read ahead, so nothing is set.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.errors import bare


def handle(request: Request) -> Answer:
    mode = bare(request.command.fields.get("READ_AHEAD_MODE", ""))
    return ok(remark=f"set commitlog readahead mode success, mode: {mode}")
