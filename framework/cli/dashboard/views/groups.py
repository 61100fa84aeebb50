"""A group's page, its queue map, and what runs in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framework.admin import delayed
from framework.admin.groups import GroupMember
from framework.admin.health import GroupHealth
from framework.admin.positions import Positions, QueuePosition
from framework.cli.dashboard import words
from framework.cli.dashboard.desk import BrowserPage, Visit, group_of
from framework.cli.dashboard.watching import GroupLook
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX
from framework.wire.bodies.running import CLIENT_VERSION, ConsumeStatus

MEMBERS_MAX = 200
QUEUES_MAX = 512
"""That a map shows."""
COLUMNS_MAX = 10
"""Members that have a column of their own."""
RUNNING_MAX = 50


def page(visit: Visit) -> BrowserPage:
    """Members, rates, what waits for a retry, what runs and where, what moved."""
    group = group_of(visit)
    found = group.found
    members = found.members.members if found else []
    retries = None
    if visit.text("retries"):
        with visit.desk.admin() as admin:
            retries = delayed.waiting(admin, admin.wrapped(group.name))
    wishes = {wish for each in members if (wish := _wish(each)) is not None}
    track = group.track
    return BrowserPage(
        "group.html",
        group.name,
        {
            "group": group,
            "why": why(group),
            "members": [_member(group, each, len(wishes) > 1) for each in members[:MEMBERS_MAX]],
            "left_out": max(len(members) - MEMBERS_MAX, 0),
            "sparks": [
                words.spark("Out", track.rates(lambda each: each.offsets), unit="/s", tone="good"),
                words.spark("In", track.rates(lambda each: each.ends), unit="/s"),
                words.spark("Lag", track.line(lambda each: each.lag), show=words.count, tone="note"),
                words.spark("Handling time", track.line(lambda each: each.handle_ms), unit=" ms"),
            ],
            "retries": retries,
            "handlers": list(_handlers(members)),
            "running": running(visit, group),
            "moves": visit.desk.watching.moves(group.name)[:20],
            "in_s": track.in_s,
            "out_s": track.out_s,
        },
        is_live=not visit.text("retries"),
    )


def why(group: GroupLook) -> str:
    """What comes, what goes, and who is busy."""
    told = f"in {words.rate(group.track.in_s)}/s, out {words.rate(group.track.out_s)}/s"
    busy = sum(row["running"] for row in group.rows)
    places = sum(row["concurrency"] for row in group.rows)
    if group.rows and group.lag and places and busy >= places:
        return f"{told}; every handler of this machine is busy: more members or concurrency help"
    if group.rows:
        return f"{told}; on this machine {busy} of {places} handlers run"
    return told


def _wish(member: GroupMember) -> str | None:
    if member.info is None:
        return None
    own = {each.topic: each.expression for each in member.info.subscriptions if not each.topic.startswith(RETRY_PREFIX)}
    return "; ".join(f"{topic}: {text}" for topic, text in sorted(own.items()))


def _member(group: GroupLook, member: GroupMember, differs: bool) -> dict[str, Any]:
    info = member.info
    statuses = list(info.statuses.values()) if info else []
    return {
        "id": member.client_id,
        "address": member.address,
        "language": member.language,
        "version": info.properties.get(CLIENT_VERSION, str(member.version)) if info else None,
        "queues": None if member.queues is None else len(member.queues),
        "out_s": sum(each.consume_ok_tps for each in statuses) if info else None,
        "handle_ms": _handle_ms(statuses),
        "failed_hour": sum(each.consume_failed_count for each in statuses) if info else None,
        "wish": _wish(member),
        "differs": differs,
        "silence": member.silence,
    }


def _handle_ms(statuses: list[ConsumeStatus]) -> float | None:
    """The mean over what succeeds; None where nothing does."""
    handled = sum(each.consume_ok_tps for each in statuses)
    return sum(each.consume_rt * each.consume_ok_tps for each in statuses) / handled if handled else None


def _handlers(members: list[GroupMember]) -> Iterator[dict[str, Any]]:
    """One a topic, all members together, as they say."""
    by_topic: dict[str, list[ConsumeStatus]] = {}
    for member in members:
        for topic, status in (member.info.statuses if member.info else {}).items():
            by_topic.setdefault(topic, []).append(status)
    for topic, statuses in sorted(by_topic.items()):
        yield {
            "topic": topic,
            "members": len(statuses),
            "out_s": sum(each.consume_ok_tps for each in statuses),
            "failed_s": sum(each.consume_failed_tps for each in statuses),
            "failed_hour": sum(each.consume_failed_count for each in statuses),
            "handle_ms": _handle_ms(statuses),
            "pull_ms": max((each.pull_rt for each in statuses), default=None),
        }


def running(visit: Visit, group: GroupLook) -> dict[str, Any]:
    """Every handler of the group that runs on this machine, the oldest first."""
    if not group.pictures:
        return {"known": False, "handlers": [], "more": 0, "troubles": []}
    answers = visit.desk.watching.ask(group.name, {"ask": "stacks"})
    handlers = [
        {**each, "worker": answer.get("worker"), "process": answer.get("process")}
        for answer in answers
        for each in answer.get("handlers", ())
        if each["group"] == group.name
    ]
    handlers.sort(key=lambda each: -int(each["age_ms"]))
    troubles = [str(trouble) for each in answers if (trouble := each.get("error") or each.get("blocked"))]
    return {
        "known": True,
        "handlers": handlers[:RUNNING_MAX],
        "more": max(len(handlers) - RUNNING_MAX, 0),
        "troubles": troubles,
        "long_ms": GroupHealth.LONG_S * 1000,
    }


# The map


def queue_map(visit: Visit) -> BrowserPage:
    """Members x queues: who owns what, where each stands, what moved when and why."""
    group = group_of(visit)
    found = group.found
    topic = visit.text("topic")
    topics = sorted({row.queue.topic for row in found.rows}) if found else []
    own = [each for each in topics if not each.startswith(RETRY_PREFIX)]
    topic = topic if topic in topics else (own or topics or [""])[0]
    members = sorted(each.client_id for each in found.members.members) if found else []
    short = {name: f"m{number}" for number, name in enumerate(members)}
    rows = [row for row in found.rows if row.queue.topic == topic] if found else []
    is_all = not visit.text("trouble")
    queues = [_queue(group, found, row, short) for row in rows] if found else []
    shown = [each for each in queues if is_all or each["state"].tone != "good"]
    moves = [each for each in visit.desk.watching.moves(group.name) if not each.queue or topic in each.queue]
    return BrowserPage(
        "queues.html",
        f"{group.name}: queues",
        {
            "group": group,
            "topic": topic,
            "topics": topics,
            "queues": shown[:QUEUES_MAX],
            "count": len(rows),
            "left_out": max(len(shown) - QUEUES_MAX, 0),
            "members": [{"short": short[name], "id": name} for name in members],
            "columns": members if len(members) <= COLUMNS_MAX else [],
            "moves": moves[:60],
            "trouble": not is_all,
        },
        is_live=True,
    )


def _queue(group: GroupLook, found: Positions, row: QueuePosition, short: dict[str, str]) -> dict[str, Any]:
    here = _here(group, row.queue)
    end, state = row.end, _state(row, here)
    standing = group.track.standing.get(row.queue)
    still = f"no progress in the last {words.age_ms(standing[0])}" if standing else None
    done = None if row.offset is None or not end else min(max(row.offset / end * 100, 0), 100)
    return {
        "queue": row.queue,
        "state": words.STANDING if standing and state in (words.BEHIND, words.FLOWING) else state,
        "owner": row.owner,
        "short": short.get(row.owner or ""),
        "offset": row.offset,
        "end": end,
        "lag": row.lag,
        "behind_s": row.lag_s,
        "percent": done,
        "why": found.unknown.get(str(row.queue)) or (here or {}).get("reason") or still,
        "pulled": here["next_offset"] if here else None,
        "held": here["messages"] if here else None,
        "running": here["running"] if here else None,
    }


def _here(group: GroupLook, queue: MessageQueue) -> dict[str, Any] | None:
    """The queue as its process on this machine tells it."""
    for picture in group.pictures:
        for each in picture["queues"]:
            if each["place"] == [queue.topic, queue.broker, queue.number]:
                return dict(each)
    return None


def _state(row: QueuePosition, here: dict[str, Any] | None) -> words.State:
    if here is not None and here["reason"] == "paused":
        return words.PAUSED
    if here is not None and here["reason"] and here["reason"] != "rate":
        return words.HELD
    if row.owner is None and not row.is_popped:
        return words.NO_OWNER
    if row.lag is None:
        return words.UNKNOWN_STATE
    return words.BEHIND if row.lag else words.FLOWING
