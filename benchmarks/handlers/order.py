"""The body that typed handlers are given; the topic is filled with such ones whatever the handler is."""

from __future__ import annotations

from pydantic import BaseModel


class Order(BaseModel):
    """An order as a shop might write it."""

    number: str
    cents: int
    note: str = ""


def template(size: int) -> str:
    """A body of about this size, with @ for the message's number."""
    shape = '{"number":"m@","cents":@,"note":""}'
    return shape.replace('""}', f'"{"x" * max(size - len(shape) - 10, 0)}"}}')
