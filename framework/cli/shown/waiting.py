"""What a command says while it ends and handlers still run: that it waits, and how not to."""

from __future__ import annotations

import asyncio

import structlog

PATIENCE_SECONDS = 1.0
"""A stop that is over sooner needs no word."""


def say_soon(loop: asyncio.AbstractEventLoop) -> asyncio.TimerHandle:
    """Say it, unless the command has ended by then; to be cancelled there."""
    return loop.call_later(PATIENCE_SECONDS, _say)


def _say() -> None:
    structlog.get_logger().info("handlers awaited", processes=1, reason="a second signal exits at once")
