"""What simulated processes log: each line goes to whoever watches the process, and not to the log of the test run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

from framework.testing.sim.node import CURRENT_NODE

FULL_DISK = "disk is full"
"""Whoever says so means a fault that somebody has played."""
BREAKDOWNS = ("loop failed", "task failed", "request failed", "settling failed", "broker trouble")
"""Lines by which the framework says that something broke which it had not foreseen."""
LINES_MAX = 20_000
"""Log lines kept a run; what loops for ever would otherwise fill the memory."""


def hear_logs() -> None:
    """Send what simulated processes log to whoever watches them, and everything else where it went before.

    structlog is set up once a process; so is this. Its place is first, before anything is rendered.
    """
    processors = structlog.get_config()["processors"]
    if not any(processor is _hear for processor in processors):
        structlog.configure(processors=[_hear, *processors])


def breakdown(name: str, fields: Mapping[str, Any]) -> str | None:
    """What broke down, by this log line; None where nothing did. Called while the line is written."""
    if name not in BREAKDOWNS or FULL_DISK in str(fields.get("reason", "")):
        return None
    what = " ".join(f"{key}={value}" for key, value in fields.items() if key != "exc_info")
    return f"{name} {what} {sys.exc_info()[1]!r}"


def _hear(_logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    node = CURRENT_NODE.get()
    if node is None or node.on_log is None:
        return event
    event["level"] = method
    node.on_log(node.name, event)
    raise structlog.DropEvent
