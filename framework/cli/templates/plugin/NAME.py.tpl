"""$name: names the messages whose handlers take long. A class, its settings, and a hook: copy what you need.

The other hooks and when they are called: `framework.hooks.specs`.
"""

from __future__ import annotations

import structlog
from framework.hooks import hookimpl
from framework.model.delivery import Delivery
from framework.settings.units import Duration
from pydantic import BaseModel, ConfigDict

_log = structlog.get_logger(__name__)


class ${kind}Settings(BaseModel):
    """`plugins.settings.$name`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    slow_after: Duration = 1_000
    """How long a handler may take before its message is named; milliseconds here, `1s` in a file."""


class $kind:
    """One instance an application, made with its settings."""

    def __init__(self, settings: ${kind}Settings) -> None:
        self._slow_after = settings.slow_after

    @staticmethod
    @hookimpl
    def register_settings() -> type[${kind}Settings]:
        return ${kind}Settings

    @hookimpl
    def after_consume(self, delivery: Delivery, elapsed_ms: float) -> None:
        """On the event loop, or on a worker thread: be quick. What is raised here is counted, and hurts no message."""
        if elapsed_ms > self._slow_after:
            _log.warning("slow handler", message_id=delivery.message.message_id, elapsed_ms=round(elapsed_ms))
