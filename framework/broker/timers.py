"""What the broker needs of an event loop: its time, its next turn, and callbacks later. An asyncio loop fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A callback that has not come yet."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """Handed in, so that tests and simulations turn the time themselves."""

    def time(self) -> float: ...
    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Any: ...
    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer: ...
