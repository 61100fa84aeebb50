"""DELETE_TOPIC_IN_NAMESRV (216): forget a topic's route.

Differences: routes are read from the brokers' topics, so a route goes with 215, and there is nothing left to do here.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok


def handle(_: Request) -> Answer:
    return ok()
