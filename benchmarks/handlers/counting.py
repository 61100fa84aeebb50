"""What the handlers that are measured have in common: they count and add up offsets, and no more.

A message costs one two additions and one look whether this was the first or the last one; the clock is read twice
a run. The sum shows, with the count, that each message came once: a message lost and another one repeated would have to
make up for each other's offset.

What is consumed and where the report goes stands in the environment, as the benchmark has put it there.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from framework import consumer

TOPIC = os.environ["BENCHMARK_TOPIC"]
GROUP = os.environ["BENCHMARK_GROUP"]
COUNT = int(os.environ["BENCHMARK_COUNT"])
REPORT = Path(os.environ["BENCHMARK_REPORT"])
EDGES = frozenset((1, COUNT))


class Tally:
    """What was handled so far, and when the first and the last one were."""

    def __init__(self) -> None:
        self.handled = 0
        self.offsets = 0
        self.first_ns = 0
        self.last_ns = 0

    def edge(self, handled: int) -> None:
        now = time.monotonic_ns()
        if handled == 1:
            self.first_ns = now
        if handled == COUNT:
            self.last_ns = now
            self.write("reached")

    def several(self, count: int) -> None:
        """A batch was handled. Where threads do that, the caller holds a lock."""
        before, self.handled = self.handled, self.handled + count
        if before == 0:
            self.edge(1)
        if self.handled == COUNT:
            self.edge(COUNT)

    def write(self, event: str) -> None:
        report = {
            "event": event,
            "handled": self.handled,
            "offsets": self.offsets,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
        }
        with REPORT.open("a") as lines:
            lines.write(json.dumps(report) + "\n")


tally = Tally()


def declared(function: Callable[..., Any], at_the_end: Callable[[], None], **options: Any) -> Any:
    """The handler as an application declares it; when the process ends, the report does."""

    def report() -> None:
        at_the_end()
        tally.write("left")

    atexit.register(report)
    return consumer(topic=TOPIC, group=GROUP, **options)(function)
