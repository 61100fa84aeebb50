"""GET_BROKER_LITE_INFO (200074): how many lite topics and subscriptions there are: none.

Differences: there are no lite topics.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire import dialect


def handle(request: Request) -> Answer:
    figures = ("currentLmqNum", "cqTableSize", "eventMapSize", "liteSubscriptionCount", "maxLmqNum", "offsetTableSize")
    empty = {"groupMeta": {}, "orderInfoCount": 0, "storeType": "default", "topicMeta": {}}
    return ok(body=dialect.dumps({**dict.fromkeys(figures, 0), **empty}))
