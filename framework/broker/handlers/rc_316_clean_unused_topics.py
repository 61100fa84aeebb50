"""CLEAN_UNUSED_TOPIC (316): remove what is left of deleted topics.

Differences: as 306: deleting a topic removes its messages anyway, so this only continues where that was interrupted.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(request: Request) -> Answer:
    request.node.store.sweep.start()
    return ok()
