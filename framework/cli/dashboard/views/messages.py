"""Messages: found by id, key or time; one with its whole life; and what comes in, as it comes."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import Any

from framework.admin import browse, traces
from framework.admin.browse import Scan
from framework.admin.cluster import Admin
from framework.admin.findings import tried
from framework.admin.groups import reason_of
from framework.admin.moments import FORMS, Moment
from framework.admin.topics import topics as user_topics
from framework.cli.commands.tail import body_of
from framework.cli.dashboard import words
from framework.cli.dashboard.desk import BrowserPage, Visit
from framework.cli.dashboard.exchanges import address, see
from framework.errors import FrameworkError
from framework.model.death_reason import origin_of
from framework.model.message import UNIQUE_KEY, Message
from framework.model.queue import MessageQueue
from framework.net.http.messages import HttpRefused, HttpResponse
from framework.reading.pulls import EVERYTHING, Filter
from framework.wire import exchanges, ids
from framework.wire.record import Record

TAIL = 50
LOOKED_AT_MAX = 2_000
"""Messages that a look at a topic reads, every five seconds: of a topic with many queues fewer of each."""
FOUND_MAX = 100
PLACE = re.compile(r"(?P<topic>[^@]{1,255})@(?P<broker>[^@:]{1,255}):(?P<queue>\d{1,9}):(?P<offset>\d{1,18})", re.ASCII)
WAYS = {"id": "message id", "key": "key", "time": "time", "place": "place"}


def search(visit: Visit) -> BrowserPage | HttpResponse:
    """The form, and what it found."""
    by, wanted, topic = visit.text("by") or "id", visit.text("q"), visit.text("topic")
    if wanted and by == "id":
        return see("/message", id=wanted, topic=topic)
    if wanted and by == "place":
        return see("/stored", place=wanted)
    told: dict[str, Any] = {"rows": [], "said": "", "is_searched": False}
    with visit.desk.admin() as admin:
        names = [each.name for each in user_topics(admin)]
        if wanted:
            if not topic:
                raise HttpRefused(400, f"name the topic: brokers find a {WAYS.get(by, 'message')} within one only")
            told = {**(_by_key if by == "key" else _by_time)(visit, admin, topic, wanted), "is_searched": True}
    return BrowserPage(
        "search.html",
        "Messages",
        {"by": by, "q": wanted, "topic": topic, "topics": names[:500], "ways": WAYS, "forms": FORMS, **told},
    )


def _by_key(_: Visit, admin: Admin, topic: str, key: str) -> dict[str, Any]:
    answers = admin.ask_each(lambda _: exchanges.by_key(admin.wrapped(topic), key, is_unique=False))
    rows: list[dict[str, Any]] = [
        {
            "message_id": record.properties.get(UNIQUE_KEY) or _place_id(record),
            "place": f"{record.topic}@{broker}:{record.queue_id}:{record.queue_offset}",
            "keys": record.properties.get("KEYS", ""),
            "tags": record.properties.get("TAGS"),
            "size": len(record.body),
            "stored_ms": record.stored_ms,
        }
        for broker, records in answers.found.items()
        for record in records
    ]  # fmt: skip
    rows.sort(key=lambda each: -int(each["stored_ms"]))
    unknown = "; ".join(f"{broker}: {why}" for broker, why in answers.unreachable.items())
    said = f"{len(rows)} found by their index; a broker names 64 at most"
    return {"rows": rows[:FOUND_MAX], "said": f"{said}; not known: {unknown}" if unknown else said}


def _by_time(visit: Visit, admin: Admin, topic: str, text: str) -> dict[str, Any]:
    spans = browse.spans(admin, admin.wrapped(topic), visit.moment(text))
    rows = [row_of(each) for each in islice(browse.messages(admin, EVERYTHING, spans, Scan()), FOUND_MAX)]
    cut = f"; the first {FOUND_MAX} are shown" if len(rows) == FOUND_MAX else ""
    return {"rows": rows, "said": f"{len(rows)} from {text} on, oldest first{cut}"}


def _place_id(record: Record) -> str:
    return ids.offset_message_id(record.store_host, record.commit_log_offset)


def row_of(message: Message) -> dict[str, Any]:
    """A message in a list: never its body."""
    body, trouble = body_of(message)
    return {
        "message_id": message.message_id,
        "place": origin_of(message.queue, message.queue_offset),
        "keys": " ".join(message.keys),
        "tags": message.tags,
        "size": None if trouble else len(body),
        "stored_ms": message.stored_ms,
    }


# One


def life(visit: Visit) -> BrowserPage:
    """What became of a message in each group: each attempt, its end, its copies."""
    message_id, topic = visit.text("id"), visit.text("topic")
    if not message_id:
        raise HttpRefused(400, "name the message: /message?id=...")
    with visit.desk.admin() as admin:
        topics = [admin.wrapped(topic)] if topic else []
        found = traces.trace_of(admin, message_id, topics=topics)
        name = admin.unwrapped(found.topic) if found.topic else None
    standing = [each for each in found.events if each.what == "group"]
    events = [each for each in found.events if each.what != "group"]
    steps = []
    for number, event in enumerate(events):
        before = events[number - 1].at_ms if number else None
        wait_ms = event.at_ms - before if event.at_ms is not None and before is not None else None
        steps.append({"event": event, "wait_ms": wait_ms, "place": _place(event.where)})
    return BrowserPage(
        "message.html",
        f"Message {message_id}",
        {
            "found": found,
            "topic": name,
            "steps": steps,
            "standing": standing,
            "stored": next((each["place"] for each in steps if each["place"]), None),
        },
        status=200 if found.is_found else 404,
    )


def _place(where: str | None) -> str | None:
    return where if where and PLACE.fullmatch(where) else None


def stored(visit: Visit, *, with_body: bool = False, place: str = "") -> BrowserPage:
    """One stored message: its properties, and its body when somebody asked for it."""
    wanted = place or visit.text("place")
    named = PLACE.fullmatch(wanted)
    if named is None:
        raise HttpRefused(400, "a place is written TOPIC@BROKER:QUEUE:OFFSET")
    with visit.desk.admin() as admin:
        queue = MessageQueue(admin.wrapped(named["topic"]), named["broker"], int(named["queue"]))
        offset = int(named["offset"])
        message = at(admin, queue, offset)
        if message is None:
            raise HttpRefused(404, f"no message lies at {wanted}: it was never stored, or the broker deleted it")
        content = words.body(*body_of(message)) if with_body else None
        row = row_of(message)
    return BrowserPage(
        "stored.html",
        f"Message {message.message_id}",
        {
            **row,
            "message": message,
            "properties": sorted(message.properties.items()),
            "body": content,
            "trace": address("/message", id=message.message_id, topic=named["topic"]),
            "reveal": {"action": "/stored", "fields": {"place": wanted}},
        },
    )


def at(admin: Admin, queue: MessageQueue, offset: int) -> Message | None:
    route = admin.route(queue.topic)
    if route is None or queue not in route.readable:
        return None
    end = admin.ask_master(queue, exchanges.max_offset(queue))
    return browse.at(admin, queue, offset) if offset < end else None


# As they come


def tail(visit: Visit) -> BrowserPage:
    """The newest messages of a topic, looked at anew with each refresh."""
    topic, tag, key = visit.text("topic"), visit.text("tag"), visit.text("key")
    rows: list[dict[str, Any]] = []
    scan, gone, most = Scan(), "", TAIL
    with visit.desk.admin() as admin:
        names = [each.name for each in user_topics(admin)]
        if topic:
            wrapped, wanted = admin.wrapped(topic), Filter(tags=tag or "*")
            most = min(TAIL, max(LOOKED_AT_MAX // len(browse.readable(admin, wrapped)), 1))
            spans = browse.spans(admin, wrapped, Moment("last", most))
            found = tried(
                lambda: deque(
                    (each for each in browse.messages(admin, wanted, spans, scan) if not key or key in each.keys),
                    maxlen=TAIL,
                )
            )
            if isinstance(found, FrameworkError):
                gone = reason_of(found)
            else:
                rows = [row_of(each) for each in reversed(found)]
    return BrowserPage(
        "tail.html",
        f"Tail {topic}" if topic else "Tail",
        {
            "topic": topic,
            "topics": names[:500],
            "tag": tag,
            "key": key,
            "rows": rows,
            "scanned": scan.scanned,
            "most": most,
            "trouble": gone,
        },
        is_live=bool(topic),
    )
