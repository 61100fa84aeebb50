"""Delays that a handler asks for, and the ladder that brokers have for them."""

from __future__ import annotations

import structlog

from framework import Message, RetryLater, consumer
from tests.patience import until
from tests.runtime.test_app import box, run, running, send


def test_a_delay_beyond_the_ladder_is_said_once() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> RetryLater:
            return RetryLater("3h" if message.body != b"0" else "2h")

        async with box() as broker:
            await send(broker, "orders", "0", "1", "2")
            with structlog.testing.capture_logs() as lines:
                async with running(broker, bill) as app:
                    await until(lambda: app.counts.retried >= 3)
        (line,) = [line for line in lines if line["event"].startswith("delay shortened")]
        assert ("warning", "billing", "orders", "3h") == (
            line["log_level"], line["group"], line["topic"], line["wanted"]
        )  # fmt: skip

    run(scenario)
