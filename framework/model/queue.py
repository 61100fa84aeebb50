"""MessageQueue: the unit that groups divide among their members."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of one topic on one broker. Sorts as the Java client sorts: topic, broker, number.

    Every member of a group computes the same allocation from the same order, so the order is part of the protocol.
    """

    topic: str
    broker: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.number}"
