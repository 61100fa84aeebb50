"""Traffic: a plugin of this application that sends believable orders while it runs, so that there is something to see.

Each order takes pieces from the shelf, and now and then the shelf is filled: steps on the topic `stock`.
A real application has customers instead.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Field

from example_app.payments import GOOD_CARD, LIMITED_CARD, STOLEN_CARD
from framework import App, FrameworkError, Message, Producer
from framework.hooks import hookimpl

ARTICLES = (("tea-250g", 890), ("teapot-iron", 5_450), ("cup-stoneware", 1_275), ("strainer", 640))
CARDS = {17: LIMITED_CARD, 83: STOLEN_CARD}
"""Each so-and-so-many-th order is paid by such a card."""
REFILLED_EACH = 40  # orders, after which each article's shelf is filled again
PAUSE_AFTER_FAILURE_SECONDS = 1.0


class TrafficSettings(BaseModel):
    """`plugins.settings.traffic`."""

    per_second: Annotated[float, Field(gt=0, le=1000)] = 5.0
    """Orders a second."""


class Traffic:
    """Sends orders from when the application has started until it stops."""

    def __init__(self, settings: TrafficSettings) -> None:
        self._pause = 1 / settings.per_second
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    @hookimpl
    def register_settings() -> type[TrafficSettings]:
        return TrafficSettings

    @hookimpl
    def app_started(self, app: App) -> None:
        self._task = asyncio.get_running_loop().create_task(self._send(app), name="traffic")

    @hookimpl
    def app_stopping(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send(self, app: App) -> None:
        async with Producer(cluster=app.cluster) as producer:
            for order in orders(prefix=app.member[-4:]):
                try:
                    await producer.send(order)
                    await _move_stock(producer, json.loads(order.body))
                except FrameworkError:
                    # The broker is away. Customers come back too; the application says by itself what is wrong.
                    await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
                await asyncio.sleep(self._pause)


async def _move_stock(producer: Producer, order: dict[str, Any]) -> None:
    """The article chooses the queue: that is what keeps its steps in order."""
    article, pieces = order["article"], -order["pieces"]
    if int(order["number"].rpartition("-")[2]) % REFILLED_EACH < len(ARTICLES):
        pieces += 2 * REFILLED_EACH // len(ARTICLES)
    step = Message("stock", json.dumps({"article": article, "pieces": pieces}), keys=[article, order["number"]])
    queues = await producer.cluster.routes.writable_queues("stock")
    if not queues:
        await producer.send(step)  # the first one creates the topic, wherever it goes
        return
    names = [name for name, _ in ARTICLES]
    await producer.send(step, queue=queues[names.index(article) % len(queues)])


def orders(prefix: str) -> Iterator[Message]:
    """Orders without end; the numbers of two processes differ by the prefix."""
    for count in itertools.count(1):
        article, price = ARTICLES[count % len(ARTICLES)]
        pieces = 1 + count * 7 % 3
        number = f"{prefix}-{count:05}"
        card = next((card for each, card in CARDS.items() if count % each == 0), GOOD_CARD)
        order = {"number": number, "article": article, "pieces": pieces, "cents": price * pieces, "card": card}
        yield Message("orders", json.dumps(order), tags="amended" if count % 9 == 0 else "created", keys=number)
