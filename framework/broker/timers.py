"""What the broker needs of an event loop: its time, and callbacks later. An asyncio loop fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A callback that has not come yet."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """Handed in, so that tests and simulations turn the time themselves."""

    def time(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer: ...
