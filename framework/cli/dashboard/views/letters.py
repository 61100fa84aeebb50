"""Dead letters: grouped by reason, searched, one with its whole story."""

from __future__ import annotations

from itertools import islice
from typing import Any

from framework.admin import browse, dead_letters
from framework.admin.browse import Scan
from framework.admin.cluster import Admin
from framework.admin.dead_letters import Letter, LetterChoice
from framework.admin.moments import moment
from framework.cli.commands.tail import body_of
from framework.cli.dashboard import words
from framework.cli.dashboard.desk import BrowserPage, Visit, group_of
from framework.cli.dashboard.exchanges import Fields, address, number
from framework.net.http.messages import HttpRefused

SCANNED_MAX = 20_000
PAGE = 50
CHOICE = ("reason", "key", "since", "place")


def choice_of(fields: Fields, now_ms: int) -> LetterChoice:
    """Which letters the fields of a form mean. HttpRefused where one cannot be read."""
    since, reason = fields.get("since", "").strip(), fields.get("reason", "").strip()
    place = fields.get("place", "").strip()
    try:
        when = moment(since, now_ms) if since else None
        if when is not None and when.kind != "time":
            raise ValueError(f"{since!r} is no time; write -2h or 2026-11-22T10:00:00Z")
        return LetterChoice(
            since_ms=when.value if when else None,
            key=fields.get("key", "").strip() or None,
            reason=dead_letters.reason_of(reason) if reason else None,
            place=place or None,
        )
    except ValueError as error:
        raise HttpRefused(400, str(error)) from None


def page(visit: Visit) -> BrowserPage:
    group = group_of(visit)
    choice = choice_of(visit.request.query, visit.desk.now_ms())
    is_all, first = bool(visit.text("all")), visit.number("from", 0, SCANNED_MAX)
    scan = Scan()
    with visit.desk.admin() as admin:
        places = dead_letters.queues(admin, admin.wrapped(group.name))
        everything = dead_letters.letters(admin, places, scan, is_all=is_all)
        found = [each for each in islice(everything, SCANNED_MAX) if choice.has(each)]
        shown = found[first : first + PAGE]
        rows = [_row(admin, each) for each in shown]
    chosen = {name: visit.text(name) for name in CHOICE}
    kept = sum(each.end - each.low for each in places)
    return BrowserPage(
        "letters.html",
        f"{group.name}: dead letters",
        {
            "group": group,
            "causes": [
                {"cause": each, "link": address("/dead-letters", group=group.name, reason=each.error or each.reason)}
                for each in dead_letters.causes(found)[:50]
            ],
            "rows": rows,
            "count": len(found),
            "kept": kept,
            "dealt": sum(each.done for each in places),
            "scanned": scan.scanned,
            "is_cut": kept > SCANNED_MAX,
            "scanned_max": SCANNED_MAX,
            "gone": scan.gone,
            "chosen": chosen,
            "all": is_all,
            "first": first,
            "page": PAGE,
        },
    )


def _row(admin: Admin, letter: Letter) -> dict[str, Any]:
    return {
        "letter": letter,
        "id": letter.message.message_id,
        "topic": None if letter.origin_topic is None else admin.unwrapped(letter.origin_topic),
        "keys": " ".join(letter.message.keys),
    }


def one(visit: Visit, *, with_body: bool = False, place: str = "") -> BrowserPage:
    """One letter: its story, its properties, and its body when somebody asked for it."""
    group = group_of(visit)
    wanted = place or visit.text("place")
    with visit.desk.admin() as admin:
        letter = find(admin, admin.wrapped(group.name), wanted)
        if letter is None:
            raise HttpRefused(404, f"there is no dead letter of {group.name} at {wanted!r}: it may be deleted by now")
        return BrowserPage(
            "letter.html",
            f"Dead letter {letter.message.message_id}",
            {
                "group": group,
                **_row(admin, letter),
                "properties": sorted(letter.message.properties.items()),
                "body": words.body(*body_of(letter.message)) if with_body else None,
                "reveal": {"action": "/dead-letter", "fields": {"group": group.name, "place": letter.place}},
            },
        )


def find(admin: Admin, group: str, place: str) -> Letter | None:
    """The letter that lies there; only of this group's dead letters."""
    for each in dead_letters.queues(admin, group):
        head = f"{each.queue.topic}@{each.queue.broker}:{each.queue.number}:"
        offset = number(place.removeprefix(head)) if place.startswith(head) else None
        if offset is not None and each.low <= offset < each.end:
            found = browse.at(admin, each.queue, offset)
            return None if found is None else dead_letters.letter_of(found)
    return None
