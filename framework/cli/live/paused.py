"""A pause of a running application as people and programs see it: by whom, since when, until when, why."""

from __future__ import annotations

from typing import Any

from framework.cli import table


def text(pause: dict[str, Any] | None, now_ms: int) -> str:
    """`by ana@host 2m ago, 8m left: bank is down`."""
    if pause is None:
        return "by its settings"
    by = f"by {pause['by']} " if pause.get("by") else ""
    until_ms, since = pause.get("until_ms"), _age(now_ms - int(pause["at_ms"]))
    left = "until `resume`" if until_ms is None else f"{_age(int(until_ms) - now_ms)} left"
    told = f"{by}{since} ago, {left}"
    return f"{told}: {pause['reason']}" if pause.get("reason") else told


def _age(ms: int) -> str:
    return table.age(max(ms, 0) // 1000)


def fields(pause: dict[str, Any] | None) -> dict[str, Any] | None:
    """The same for programs: times as ISO 8601."""
    if pause is None:
        return None
    until_ms = pause.get("until_ms")
    return {
        "by": pause.get("by") or None,
        "at": table.instant(int(pause["at_ms"])),
        "until": None if until_ms is None else table.instant(int(until_ms)),
        "reason": pause.get("reason") or None,
    }
