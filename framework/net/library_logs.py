"""Logging of a program that uses the framework as a library, and set up none: the standard library's.

structlog prints to stdout by itself, which belongs to the program. So lines go to `logging`, which shows warnings on
stderr and all else where the program asks for it. Whoever has configured structlog keeps what they have.
"""

from __future__ import annotations

from typing import Any

import structlog


def log_as_a_library() -> None:
    """Nothing where structlog is configured, as our commands and many programs do."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.processors.format_exc_info,
            _as_text,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _as_text(_logger: Any, _method: str, event: Any) -> str:
    """`queue held queue=orders@broker-a:0 reason='count'`."""
    fields = dict(event)
    text, failure = fields.pop("event", ""), fields.pop("exception", None)
    line = " ".join([str(text), *(f"{name}={value!r}" for name, value in fields.items())])
    return f"{line}\n{failure}" if failure else line
