"""All together: a pydantic body, retries declared; three plugins with hooks before and after come by the settings."""

from __future__ import annotations

from benchmarks.handlers.counting import declared
from benchmarks.handlers.pydantic_handler import count
from framework import Retry

handle = declared(count, at_the_end=lambda: None, retry=Retry(on=(OSError, TimeoutError), max=5, delays=["1s", "10s"]))
