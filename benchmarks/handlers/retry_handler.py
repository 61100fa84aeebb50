"""The async handler with a declaration about failures that never come."""

from __future__ import annotations

from benchmarks.handlers.async_handler import count
from benchmarks.handlers.counting import declared
from framework import Retry

handle = declared(count, at_the_end=lambda: None, retry=Retry(on=(OSError, TimeoutError), max=5, delays=["1s", "10s"]))
