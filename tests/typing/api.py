"""What `@consumer` keeps, as mypy sees it. Checked by `test_what_editors_see.py` and by every `make check`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

from framework import Consumer, Delivery, Message, RetryLater, consumer
from framework.declare import ConsumerSpec


@consumer(topic="orders", group="billing", tags="created || paid")
async def bill(order: Message) -> RetryLater | None:
    return None


@consumer("orders", "audit", name="trail")
def note(delivery: Delivery, depth: int = 1) -> int:
    return depth


async def seen(message: Message, delivery: Delivery) -> None:
    under_way: Coroutine[Any, Any, RetryLater | None] = bill(order=message)
    assert_type(await under_way, RetryLater | None)
    assert_type(await bill(message), RetryLater | None)
    assert_type(note(delivery), int)
    assert_type(note(delivery, depth=2), int)
    assert_type(bill.spec, ConsumerSpec)
    consumers: list[Consumer[..., Any]] = [bill, note]
    assert consumers
