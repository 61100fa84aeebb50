"""A handler's `Publisher`: it sends while the handler runs, over the application's connections."""

from __future__ import annotations

from framework import App, Message, Publisher, consumer, publishes
from framework.testing import Harness


def test_a_handler_sends_before_it_returns_and_what_it_sent_stays_sent() -> None:
    seen, tries = list[bytes](), list[bytes]()

    @consumer("orders", "billing")
    @publishes("receipts")
    async def bill(order: bytes, publisher: Publisher, app: App) -> bytes:
        await publisher.send("receipts", b"sent for " + order, order_key="K")
        assert publisher is app.publisher
        tries.append(order)
        if len(tries) < 3:
            raise ValueError("after it was sent")
        return b"returned for " + order

    @consumer("receipts", "shelf")
    async def keep(receipt: Message) -> None:
        seen.append(receipt.body)

    with Harness([bill, keep]) as desk:
        desk.send("orders", b"tea")
        desk.settle()

    assert 3 <= seen.count(b"sent for tea"), "each attempt sent"
    assert 1 == seen.count(b"returned for tea")
