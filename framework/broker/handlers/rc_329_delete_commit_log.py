"""DELETE_EXPIRED_COMMITLOG (329): there are no files of a commit log to delete.

Differences: nothing is done, and the answer is 0.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(_: Request) -> Answer:
    return ok()
