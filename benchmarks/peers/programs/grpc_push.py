"""The gRPC client of RocketMQ, through the proxy: its push consumer as shipped, with twenty threads."""

from __future__ import annotations

import time

from counted import ADDRESS, GROUP, TOPIC, Counted
from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    PushConsumer,
)


class Counting(MessageListener):  # type: ignore[misc]  # it has no types
    counted = Counted()

    def consume(self, message: Message) -> ConsumeResult:
        self.counted.took_on_a_thread()
        return ConsumeResult.SUCCESS


consumer = PushConsumer(ClientConfiguration(ADDRESS, Credentials()), GROUP, Counting(), {TOPIC: FilterExpression()})
consumer.startup()
while True:
    time.sleep(60)
