"""Payments: takes each order's money, several orders at once."""

from __future__ import annotations

import asyncio

import structlog
from pydantic import BaseModel, Field

from framework import Message, Retry, consumer

log = structlog.get_logger()

PROVIDER_SECONDS = 0.02  # what a payment provider takes to answer

# Cards as providers give them out for trying.
GOOD_CARD, LIMITED_CARD, STOLEN_CARD = "4242424242424242", "4000000000000341", "4000000000009979"


class Declined(Exception):
    """The provider said no, for now."""


class Stolen(Exception):
    """The provider said no, and it will stay no."""


class Order(BaseModel):
    """What the body must be. One that is not goes to the dead letters with the reason: no later try reads it better."""

    number: str
    article: str
    pieces: int = Field(gt=0)
    cents: int = Field(gt=0)
    card: str = GOOD_CARD


@consumer(
    topic="orders",
    group="payments",
    tags="created || amended",
    retry=Retry(max=4, delays=["10s", "1m", "10m"], give_up_on=Stolen),
)
async def take_payment(order: Order, message: Message) -> None:
    """Returning is success. After an exception the order is retried after ten seconds, a minute and ten minutes; then,
    and at once if the card is stolen, it goes to the dead-letter queue, for a person to look at.
    """
    await charge(order, attempt=message.attempt)


async def charge(order: Order, *, attempt: int) -> None:
    """Stands for a payment provider. It knows the order's number, so that charging twice takes the money once."""
    await asyncio.sleep(PROVIDER_SECONDS)
    if order.card == STOLEN_CARD:
        raise Stolen(f"order {order.number}: the card is reported stolen")
    if order.card == LIMITED_CARD and attempt == 1:
        # The line carries group, queue, offset, message id and attempt by itself, and no number of a card.
        log.info("card declined", order=order.number, cents=order.cents)
        raise Declined(f"order {order.number}: the card's limit is reached for the moment")
