"""Billing: takes each order's money, several orders at once."""

from __future__ import annotations

import asyncio
import json

from framework import DeadLetter, Message, RetryLater, consumer

PROVIDER_SECONDS = 0.02  # what a payment provider takes to answer


class Declined(Exception):
    """The provider said no, for now."""


@consumer(topic="orders", group="billing", tags="created || amended")
async def bill(order: Message) -> RetryLater | DeadLetter | None:
    """Returning nothing is success; an outcome says more; an exception would mean: again, later."""
    try:
        details = json.loads(order.body)
        number, cents = str(details["number"]), int(details["cents"])
    except (ValueError, KeyError, TypeError) as error:
        # No later try would read it better, so it need not take sixteen of them.
        return DeadLetter(f"not an order: {error!r}")
    try:
        await charge(number, cents, attempt=order.attempt)
    except Declined as error:
        return RetryLater("10s", reason=str(error))
    return None


async def charge(number: str, cents: int, *, attempt: int) -> None:
    """Stands for a payment provider. It knows the order's number, so that charging twice takes the money once."""
    await asyncio.sleep(PROVIDER_SECONDS)
    if attempt == 1 and cents % 25 == 0:
        raise Declined(f"order {number}: the card's limit is reached for the moment")
