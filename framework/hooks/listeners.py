"""Listeners: the hooks that report what happens beside deliveries, each resolved once into one call.

An attribute is None where nobody implements its hook: the caller tests that first, and makes no value for it. Whatever
a plugin raises, or takes long for, is contained, counted and logged as for every hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from framework.model.delivery import Delivery
from framework.model.pulled import ChunkSummary
from framework.model.queue import MessageQueue

Tell: TypeAlias = Callable[..., None]
Resolve: TypeAlias = Callable[[str], Tell | None]


def _nobody(_: str) -> None:
    return None


class Listeners:
    """One an application."""

    __slots__ = ("after_chunk", "assignment_changed", "delivery_stuck", "offsets_committed", "queue_held")

    def __init__(self, resolve: Resolve = _nobody) -> None:
        self.after_chunk: Callable[[ChunkSummary], None] | None = resolve("after_chunk")
        self.delivery_stuck: Callable[[Delivery, int], None] | None = resolve("delivery_stuck")
        self.assignment_changed: Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], None] | None = resolve(
            "assignment_changed"
        )
        self.offsets_committed: Callable[[str, Mapping[MessageQueue, int]], None] | None = resolve("offsets_committed")
        self.queue_held: Callable[[str, MessageQueue, str], None] | None = resolve("queue_held")

    def __repr__(self) -> str:
        heard = [name for name in self.__slots__ if getattr(self, name) is not None]
        return f"<Listeners {', '.join(heard) or 'nobody'}>"


NO_LISTENERS = Listeners()


def one_call(each: Callable[..., Any], those: Sequence[Any]) -> Tell | None:
    """One call for all implementations of a hook, in calling order; None where there are none.

    `each` calls one of them and contains what it raises.
    """
    if not those:
        return None

    def tell(*arguments: object) -> None:
        for implementation in those:
            each(implementation, implementation.function, *arguments)

    return tell
