"""Dramatiq on Redis: an actor that counts. Run by its own command as a worker, or with a number to enqueue so many."""

from __future__ import annotations

import sys

import dramatiq
from counted import ADDRESS, TOPIC, Counted
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=f"redis://{ADDRESS}"))
counted = Counted()


@dramatiq.actor(queue_name=TOPIC)
def handle(order: dict) -> None:  # type: ignore[type-arg]
    counted.took_on_a_thread()


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        handle.send({"number": f"m{number}", "cents": number, "note": "x" * 50})
