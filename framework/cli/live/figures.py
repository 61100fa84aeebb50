"""Figures: two pictures of a running application to the rows of `top`. What is not known is None, and never 0.

Rates are differences of counts between two pictures of the same process. It knows no terminal and no socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.cli import table
from framework.net.control.asking import named

Worker = dict[str, Any]
"""What one process answers."""
Group = dict[str, Any]
"""A group of it, as its snapshot has it."""

TROUBLES_MAX = 8
ENDS = ("handled", "dropped")
FAILURES = ("retried", "dead_lettered")


@dataclass(frozen=True, slots=True)
class Figures:
    """The application at one moment."""

    verdict: str
    is_well: bool
    troubles: list[str] = field(default_factory=list)
    """What somebody should see, the worst first."""
    pauses: list[str] = field(default_factory=list)
    """Which groups are paused, by whom, until when and why."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One a group."""


def figures(before: Sequence[Worker], now: Sequence[Worker]) -> Figures:
    pictures = [(each, each["snapshot"]) for each in now if "snapshot" in each]
    silent = [f"{named(each, len(now))}{each.get('error')}" for each in now if "snapshot" not in each]
    earlier = {each["process"]: each["snapshot"] for each in before if "snapshot" in each}
    reasons = [
        f"{named(each, len(now))}{reason}"
        for each, picture in pictures
        for reason in dict.fromkeys((*picture["not_live"], *picture["not_ready"]))
    ]
    names = dict.fromkeys(group["own_name"] for _, picture in pictures for group in picture["groups"])
    rows = [_row(name, [picture for _, picture in pictures], earlier, len(silent)) for name in names]
    held = [f"{named(each, len(now))}{text}" for each, picture in pictures for text in _held(picture)]
    troubles = [*silent, *reasons, *held]
    more = [f"and {len(troubles) - TROUBLES_MAX} more"] if len(troubles) > TROUBLES_MAX else []
    return Figures(
        _verdict(pictures, len(now), reasons, silent),
        not (silent or reasons),
        troubles[:TROUBLES_MAX] + more,
        _pauses([picture for _, picture in pictures]),
        rows,
    )


def _pauses(pictures: list[Any]) -> list[str]:
    """One a group: processes that were paused together say the same."""
    told = {
        group["own_name"]: pause_text(group["pause"], picture["taken_ms"])
        for picture in pictures
        for group in picture["groups"]
        if group["is_paused"]
    }
    return [f"{name}: paused {text}" for name, text in told.items()]


def _verdict(pictures: list[tuple[Worker, Any]], count: int, reasons: list[str], silent: list[str]) -> str:
    if not pictures:
        return "no process answers"
    first = pictures[0][1]
    state = "ready" if not reasons else "not ready"
    processes = f"{count} processes" if count != 1 else "1 process"
    away = f", {len(silent)} without an answer" if silent else ""
    up = table.age(max(picture["up_ms"] for _, picture in pictures) / 1000)
    return f"{first['name']}: {state}, {processes}{away}, up {up}"


def _held(picture: Any) -> Iterable[str]:
    """Topics without a queue to read, and queues that do not flow, by reason."""
    for group in picture["groups"]:
        for topic, why in group["missing"].items():
            yield f"{group['own_name']}: topic {topic}: {why}"
        reasons: dict[str, int] = {}
        for queue in group["queues"]:
            if queue["reason"] and not (group["is_paused"] and queue["reason"] == "paused"):
                reasons[queue["reason"]] = reasons.get(queue["reason"], 0) + 1
        for reason, count in reasons.items():
            yield f"{group['own_name']}: {count} queue{'s' if count > 1 else ''} held: {reason}"


def _row(name: str, pictures: list[Any], earlier: dict[int, Any], silent: int) -> dict[str, Any]:
    here = [(picture, group) for picture in pictures for group in picture["groups"] if group["own_name"] == name]
    groups = [group for _, group in here]
    lags, behind = _known(groups, "lag"), _behind(groups)
    oldest = max(_known(groups, "oldest_ms"), default=None)
    return {
        "group": name,
        "state": _state(groups),
        "pause": next((pause_fields(group["pause"]) for group in groups if group["pause"] is not None), None),
        "processes": len(groups),
        "queues": sum(len(group["queues"]) for group in groups),
        "held": sum(queue["reason"] is not None for group in groups for queue in group["queues"]),
        "running": sum(group["running"] for group in groups),
        "concurrency": sum(group["concurrency"] for group in groups),
        "handled_s": _rate(here, earlier, ENDS),
        "failed_s": _rate(here, earlier, FAILURES),
        "retries_waiting": sum(group["retries_waiting"] for group in groups),
        "retries_at_brokers": None,  # for their delay to be over: brokers count nobody's
        "lag": sum(lags) if lags else None,
        "is_lag_least": bool(silent) or len(lags) < len(groups) or any(group["is_lag_least"] for group in groups),
        "behind_s": None if behind is None else behind / 1000,
        "oldest_s": None if oldest is None else oldest / 1000,
    }


def _behind(groups: list[Group]) -> int | None:
    """Of all processes. Where one does not know of its queues, that the others have nothing to do is no answer."""
    known = max(_known(groups, "behind_ms"), default=0)
    is_unknown = any(group["queues"] and group["behind_ms"] is None for group in groups)
    return known if known or (not is_unknown and _known(groups, "behind_ms")) else None


def _known(groups: list[Group], name: str) -> list[int]:
    return [int(group[name]) for group in groups if group[name] is not None]


def _state(groups: list[Group]) -> str:
    resting = sum(group["is_paused"] for group in groups)
    if resting:
        return "paused" if resting == len(groups) else f"paused in {resting}"
    if any(group["hanging"] for group in groups):
        return "hangs"
    if not all(group["is_balanced"] for group in groups):
        return "joins"
    if any(queue["reason"] for group in groups for queue in group["queues"]):
        return "held"
    return "flows" if any(group["queues"] for group in groups) else "no queues"


def _rate(here: list[tuple[Any, Group]], earlier: dict[int, Any], names: Sequence[str]) -> float | None:
    """Of those processes that were there before; None where none was."""
    rates: list[float] = []
    for picture, group in here:
        old = earlier.get(picture["process"])
        before = next((each for each in old["groups"] if each["group"] == group["group"]), None) if old else None
        passed_ms = picture["up_ms"] - old["up_ms"] if old else 0
        if before is not None and passed_ms > 0:
            ended = sum(group[name] - before[name] for name in names)
            rates.append(max(ended, 0) * 1000 / passed_ms)
    return round(sum(rates), 1) if rates else None


def _lag(row: dict[str, Any]) -> str | None:
    """12,310+ where it is at least that."""
    return None if row["lag"] is None else f"{table.count(row['lag'])}{'+' if row['is_lag_least'] else ''}"


def _column(title: str, name: str, show: Callable[[Any], str] = str) -> table.Column:
    return table.Column(title, name, show, is_number=True)


COLUMNS = (
    table.Column("GROUP", "group"),
    table.Column("STATE", "state"),
    _column("QUEUES", "queues"),
    table.Column("RUNNING", "shown_running", is_number=True),
    _column("HANDLED/s", "handled_s", table.rate),
    _column("FAILED/s", "failed_s", table.rate),
    _column("RETRIES HERE", "retries_waiting", table.count),
    _column("LAG", "shown_lag"),
    _column("BEHIND", "behind_s", table.age),
    _column("OLDEST", "oldest_s", table.age),
)


def lines_of(found: Figures) -> list[str]:
    """The table, its title first."""
    return table.lines_of(
        COLUMNS,
        [
            {**row, "shown_lag": _lag(row), "shown_running": f"{row['running']}/{row['concurrency']}"}
            for row in found.rows
        ],
    )


def pause_text(pause: dict[str, Any] | None, now_ms: int) -> str:
    """By whom, since when, until when, why: `by ana@host 2m ago, 8m left: bank is down`."""
    if pause is None:
        return "by its settings"
    by = f"by {pause['by']} " if pause.get("by") else ""
    until_ms, since = pause.get("until_ms"), _age(now_ms - int(pause["at_ms"]))
    left = "until `resume`" if until_ms is None else f"{_age(int(until_ms) - now_ms)} left"
    told = f"{by}{since} ago, {left}"
    return f"{told}: {pause['reason']}" if pause.get("reason") else told


def _age(ms: int) -> str:
    return table.age(max(ms, 0) // 1000)


def pause_fields(pause: dict[str, Any] | None) -> dict[str, Any] | None:
    """A pause for programs: times as ISO 8601."""
    if pause is None:
        return None
    until_ms = pause.get("until_ms")
    return {
        "by": pause.get("by") or None,
        "at": table.instant(int(pause["at_ms"])),
        "until": None if until_ms is None else table.instant(int(until_ms)),
        "reason": pause.get("reason") or None,
    }
