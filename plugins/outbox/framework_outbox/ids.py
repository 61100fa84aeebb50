"""Message ids of what is written to the outbox, and the handler's call that it is written in.

A handler that runs again after a crash writes the same messages again. So an id is computed from the call (the group,
the handled message, how many were written before, and what is written), and readers with `once=` drop the duplicate. It
is laid out as RocketMQ's own keys: bytes 10 to 13 tell administrators' tools from which time on to search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from secrets import token_bytes
from time import time

from framework.model.delivery import Delivery
from framework.model.message import Message


class Run:
    """One handler's run, as far as it writes to the outbox."""

    __slots__ = ("count", "delivery", "is_one")

    def __init__(self, delivery: Delivery) -> None:
        self.delivery, self.count, self.is_one = delivery, 0, True


RUNNING: ContextVar[Run | None] = ContextVar("framework_outbox_run", default=None)


@contextmanager
def running(delivery: Delivery, wrote: Callable[[], None]) -> Iterator[None]:
    """For `around_consume`: note the run, and tell that it wrote something when it is over."""
    run, other = Run(delivery), RUNNING.get()
    if other is not None:  # a batch: which messages it holds is another matter each time
        run.is_one = other.is_one = False
    token = RUNNING.set(run)
    try:
        yield
    finally:
        RUNNING.reset(token)
        if run.count:
            wrote()


def id_for(message: Message, key: str | None) -> str:
    """The message's own id, that of this run's next message, or a new one outside of handlers."""
    if message.properties.get("UNIQ_KEY"):
        return message.message_id
    run = RUNNING.get()
    if run is None:
        return _laid_out(token_bytes(12), int(time() * 1000))
    run.count += 1
    if not run.is_one:
        return _laid_out(token_bytes(12), int(time() * 1000))
    source = run.delivery.message
    digest = sha256()
    properties = "".join(f"{name}\x01{value}\x02" for name, value in sorted(message.properties.items()))
    for part in (
        run.delivery.group, source.topic, source.message_id, str(run.count), message.topic, properties, key or ""
    ):  # fmt: skip
        digest.update(part.encode("utf-8", "surrogatepass") + b"\x00")
    digest.update(message.body)
    return _laid_out(digest.digest(), source.born_ms or int(time() * 1000))


def _laid_out(unique: bytes, at_ms: int) -> str:
    """Ten bytes, the milliseconds since the month began, and two more."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    month = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    since = (at - month) // timedelta(milliseconds=1)
    return (unique[:10] + since.to_bytes(4) + unique[10:12]).hex().upper()
