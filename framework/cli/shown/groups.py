"""What commands say of groups: the verdict in a line, the worst first, and the same as fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from framework.cli import table

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.delayed import WaitingRetries
    from framework.admin.health import GroupHealth
    from framework.admin.positions import Positions

GROUPS = (
    table.Column("GROUP", "group"),
    table.Column("STATE", "state"),
    table.Column("MEMBERS", "members", table.count, is_number=True),
    table.Column("QUEUES", "queues", table.count, is_number=True),
    table.Column("LAG", "lag", table.count, is_number=True),
    table.Column("HANDLED/s", "handled_s", table.rate, is_number=True),
    table.Column("RETRIES", "retries_waiting", table.count, is_number=True),
    table.Column("FAILED 1H", "failed_last_hour", table.count, is_number=True),
    table.Column("DEAD 1H", "dead_last_hour", table.count, is_number=True),
    table.Column("DEAD", "dead_letters", table.count, is_number=True),
)


def row(admin: Admin, health: GroupHealth) -> dict[str, Any]:
    """One group with the fields of the JSON."""
    work = health.work
    return {
        "group": admin.unwrapped(health.positions.group),
        "members": len(health.positions.members.members),
        "lag": health.positions.lag,
        "state": health.state,
        "retries_waiting": health.waiting,
        "dead_letters": health.letters.waiting,
        "dead_last_hour": health.letters.lately,
        "failed_last_hour": work.failed_in_an_hour if work.is_told else None,
        "success_ago_s": work.success_ago_s,
        "handlers_running": work.running,
        "oldest_handler_s": work.oldest_s,
        "handlers_hanging": work.hanging if work.is_told else None,
        "silent_members": len(health.silent),
        "resets_pending": sum(each.waits_for_reset for each in health.positions.rows),
        "troubles": [*parts(health), *differences(admin, health.positions), *pauses(health.positions)],
        "queues": len(health.positions.rows),
        "handled_s": handled_a_second(health),
    }


def handled_a_second(health: GroupHealth) -> float | None:
    """Of the last minute, as members count it; None where one of them does not say."""
    found, is_known = health.positions, not (health.silent or health.positions.unknown)
    if not (is_known and (health.work.is_told or not found.members.members)):
        return None
    return round(float(health.work.handled_a_second), 3)


def said(admin: Admin, health: GroupHealth) -> str:
    """The verdict on one group, before any number of a queue."""
    name, state = admin.unwrapped(health.positions.group), health.state
    if state == "nobody":
        return f"{name}: {health.positions.blank}"
    found = list(parts(health))
    if state in ("unknown", "held", "failing", "hanging", "no member", "retrying"):
        told = f"{state}: {'; '.join(found)}"
    else:  # its part says it already
        told = "; ".join(found if state in ("paused", "dead letters", "behind") else ["up to date", *found])
    return f"{name}: {told}; {table.some(len(health.positions.members.members), 'member')}"


def parts(health: GroupHealth) -> Iterator[str]:
    """What is wrong, the worst first."""
    found, work = health.positions, health.work
    most = "at most " if health.letters.unasked else ""
    if found.unserved:
        yield f"{_lost(found)} on {', '.join(sorted(found.unserved))} cannot be seen"
    yield from found.members.held
    if health.is_failing:
        ago = f"; the last success was {table.age(work.success_ago_s)} ago" if work.success_ago_s is not None else ""
        yield f"nothing succeeds{ago}"
    if health.letters.lately:
        yield f"{most}{table.some(health.letters.lately, 'dead letter')} in the last hour"
    if work.failed_in_an_hour:
        yield f"{table.count(work.failed_in_an_hour)} failed in the last hour"
    if work.hanging:
        yield f"{table.some(work.hanging, 'handler')} given up, and still running"
    if work.oldest_s is not None and work.oldest_s >= health.LONG_S:
        yield f"a handler has run for {table.age(work.oldest_s)}"
    if most:
        yield f"{most}{table.some(health.letters.waiting or 0, 'dead letter')}"
    yield from _of_members(health)
    if health.waiting:
        least = "at least " if health.retries.is_cut else ""
        yield f"{least}{table.some(health.waiting, 'message')} waiting for a retry"
    if found.lag:
        oldest = f", the oldest stored {table.age(found.lag_s)} ago" if found.lag_s is not None else ""
        yield f"{table.some(found.lag, 'message')} behind{oldest}"
    elif found.lag is None and not found.unserved:
        yield found.blank or "the lag is not known in full"


def _of_members(health: GroupHealth) -> Iterator[str]:
    """What keeps them from their work."""
    if health.silent:
        yield f"{table.some(len(health.silent), 'member')} silent (stopped, or blocked): {', '.join(health.silent)}"
    if resetting := sum(each.waits_for_reset for each in health.positions.rows):
        yield f"a reset of {table.some(resetting, 'queue')} waits until members pull next"
    for pause in health.positions.members.paused if health.is_paused else ():
        yield f"paused {pause}"


def _lost(found: Positions) -> str:
    count = sum(each.queue.broker in found.unserved for each in found.rows)
    return table.some(count, "queue") if count else "what it has"


def said_of_all(found: Sequence[GroupHealth]) -> str:
    """How many groups are in which state, the worst first."""
    from framework.admin.health import STATES

    states = [each.state for each in found]
    told = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
    return f"{table.some(len(found), 'group')}: {told}" if found else "no group"


def said_of_lags(found: Sequence[Positions], retries: WaitingRetries) -> str:
    """How far several groups are behind, where nobody asked their members."""
    lags = [each.lag for each in found if each.lag]
    unknown = sum(each.lag is None and not each.is_nobody for each in found)
    told = f"{len(lags)} behind, by {table.some(sum(lags), 'message')}" if lags else "none behind"
    if waiting := sum(retries.of(each.group) or 0 for each in found):
        told += f"; {'at least ' if retries.is_cut else ''}{table.some(waiting, 'message')} waiting for a retry"
    told = f"{table.some(len(found), 'group')}: {told}" if found else "no group"
    return f"{told}; of {unknown} the lag is not known in full" if unknown else told


def differences(admin: Admin, found: Positions) -> list[str]:
    """How its members do not fit together, each in a line."""
    members = found.members.members
    wishes = {each.client_id: wanted(admin, _of(each)) for each in members if each.info is not None}
    lines: list[str] = []
    if len(set(wishes.values())) > 1:
        told = ", ".join(f"{member}: {wish}" for member, wish in wishes.items())
        lines.append(f"members subscribe differently, so messages are missed: {told}")
    lines += [f"held: {why} (in {', '.join(those)})" for why, those in found.members.held.items()]
    idle = [each.client_id for each in members if each.queues == ()]
    if idle and found.rows:
        lines.append(f"{len(idle)} of {len(members)} members have no queue: {', '.join(idle)}")
    unowned = [str(row.queue) for row in found.rows if row.owner is None and not row.is_popped]
    if members and unowned and not found.unknown:
        lines.append(f"{len(unowned)} queues have no owner: {', '.join(unowned[:5])}")
    return lines


def pauses(found: Positions) -> list[str]:
    """Who of them is paused, and why; somebody wants it so."""
    return [f"paused {pause} (in {', '.join(those)})" for pause, those in found.members.paused.items()]


def wanted(admin: Admin, subscriptions: dict[str, str]) -> str:
    own = {topic: text for topic, text in subscriptions.items() if not topic.startswith("%RETRY%")}
    return "; ".join(f"{admin.unwrapped(topic)}: {text}" for topic, text in sorted(own.items()))


def _of(member: Any) -> dict[str, str]:
    return {each.topic: each.expression for each in member.info.subscriptions}
