"""What $name does with its messages."""

from __future__ import annotations

from framework import Retry, consumer
from pydantic import BaseModel


class Order(BaseModel):
    """What a body must be, as JSON. One that is not goes to the dead letters, with the reason."""

    number: str
    cents: int


class Busy(Exception):
    """The payment provider asks for patience."""


@consumer("orders", "$name", retry=Retry(on=(Busy,), max=5, delays=["1s", "10s", "1m"]))
async def bill(order: Order) -> None:
    """Returning is success. Busy is tried again up to five times; whatever else is raised makes a dead letter."""
    await charge(order)
    print(f"billed order {order.number}: {order.cents / 100:.2f}")


async def charge(order: Order) -> None:
    """Put your payment provider here. A message may come again, so let it know the order's number."""
