"""Recycling: when a worker process is replaced, for the messages that it has handled or the memory that it holds."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from framework.services.crew.run import MessageCounts
from framework.settings.schema import WorkersSettings

_PAGES = Path("/proc/self/statm")


def reason_to_recycle(counts: MessageCounts, limits: WorkersSettings) -> str | None:
    """Why this process should be replaced; None while it need not."""
    ended = counts.handled + counts.retried + counts.dead_lettered + counts.dropped
    if limits.max_messages is not None and ended >= limits.max_messages:
        return f"{ended} messages"
    if limits.max_memory is not None and (held := memory_bytes()) >= limits.max_memory:
        return f"{held >> 20} MiB of memory"
    return None


def memory_bytes() -> int:
    """What this process holds now; where the system does not say, the most that it ever held."""
    try:
        return int(_PAGES.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
