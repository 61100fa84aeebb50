"""GET_ALL_DELAY_OFFSET (45): by delay level, the first message that still waits.

Differences: messages fire by their time, not by their place, so those behind the offset may be delivered already.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.broker.store import delayed
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire import dialect


def handle(request: Request) -> Answer:
    node = request.node
    offsets = {
        queue.number + 1: delayed.first_waiting(node.store.database.reading, queue)
        for queue in node.store.queues.of_topic(node.name, SCHEDULE_TOPIC)
    }
    return ok(body=dialect.dumps({"offsetTable": offsets}, quote_integer_keys=False))
