"""Billing: takes each order's money, several orders at once."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from framework import Message, RetryLater, consumer

PROVIDER_SECONDS = 0.02  # what a payment provider takes to answer


class Declined(Exception):
    """The provider said no, for now."""


class Order(BaseModel):
    """What the body must be. One that is not goes to the dead letters with the reason: no later try reads it better."""

    number: str
    cents: int


@consumer(topic="orders", group="billing", tags="created || amended")
async def bill(order: Order, message: Message) -> RetryLater | None:
    """Returning nothing is success; an outcome says more; an exception would mean: again, later."""
    try:
        await charge(order.number, order.cents, attempt=message.attempt)
    except Declined as error:
        return RetryLater("10s", reason=str(error))
    return None


async def charge(number: str, cents: int, *, attempt: int) -> None:
    """Stands for a payment provider. It knows the order's number, so that charging twice takes the money once."""
    await asyncio.sleep(PROVIDER_SECONDS)
    if attempt == 1 and cents % 25 == 0:
        raise Declined(f"order {number}: the card's limit is reached for the moment")
