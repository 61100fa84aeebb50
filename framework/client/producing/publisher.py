"""Publisher: what a handler sends by while it runs, over its application's connections."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from framework.client.producer import Producer
from framework.client.producing.blocking import SyncProducer

P = ParamSpec("P")
R = TypeVar("R")


def _passed_on(
    method: Callable[Concatenate[Producer, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Publisher, P], Coroutine[Any, Any, R]]:
    @wraps(method)
    def call(self: Publisher, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return method(self.producer, *args, **kwargs)

    return call


class Publisher:
    """Sends in a handler: `async def bill(order: Order, publisher: Publisher): await publisher.send("invoices", ...)`.

    What it has sent stays sent, also if the handler fails afterwards; `@publishes` sends only what a handler returns.
    A plain handler writes `publisher.blocking.send(...)`.
    """

    IS_PUBLISHER: ClassVar = True
    """Marks the class for `declare`: a parameter with this annotation gets the application's publisher."""

    def __init__(self, make: Callable[[], Producer]) -> None:
        """`make` gives a producer over connections that are open by then."""
        self._make = make
        self._producer: Producer | None = None
        self._blocking: SyncProducer | None = None

    send = _passed_on(Producer.send)
    """As `Producer.send`."""
    send_one_way = _passed_on(Producer.send_one_way)
    """As `Producer.send_one_way`."""
    send_batch = _passed_on(Producer.send_batch)
    """As `Producer.send_batch`."""
    recall = _passed_on(Producer.recall)
    """As `Producer.recall`."""

    @property
    def producer(self) -> Producer:
        """The application's producer, made when it is first asked for."""
        if self._producer is None:
            self._producer = self._make()
        return self._producer

    @property
    def blocking(self) -> SyncProducer:
        """The same for plain handlers, which run on threads: each call returns when it is done."""
        if self._blocking is None:
            self._blocking = SyncProducer(over=self.producer)
        return self._blocking

    def __repr__(self) -> str:
        return f"<Publisher by {self._producer or 'nothing yet'}>"
