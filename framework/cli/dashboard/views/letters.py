"""Dead letters: grouped by reason, searched, one with its whole story."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from framework.admin import browse, dead_letters, facts
from framework.admin.browse import Scan
from framework.admin.cluster import Admin
from framework.admin.dead_letters import Cause, Letter, LetterChoice, LetterQueue
from framework.admin.moments import moment
from framework.cli.commands.tail import body_of
from framework.cli.dashboard import words
from framework.cli.dashboard.desk import BrowserPage, Visit, group_of
from framework.cli.dashboard.exchanges import Fields, address, number
from framework.net.http.messages import HttpRefused

SCANNED_MAX = 20_000
BYTES_MAX = 256 * 1024 * 1024
"""Of letters that a page looks at, beside their number: some seconds' reading."""
BLOCK_MIN, BLOCK_MAX = 20, 1000
REASON_MAX = 200
"""Of a reason, that a search for it has."""
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
            reason=_has(reason) if reason else None,
            place=place or None,
        )
    except ValueError as error:
        raise HttpRefused(400, str(error)) from None


def _has(text: str) -> Callable[[str], bool]:
    """A part of the reason; `#` stands for figures, too. No regular expression: one can hold a process for ever."""
    if text.startswith("~"):
        raise ValueError("a regular expression is for the command: framework-app dlq list GROUP --reason '~...'")
    return lambda told: text in told or text in (dead_letters.masked(told) or "")


def page(visit: Visit) -> BrowserPage:
    """The newest first: of however many there are, those that ended tonight."""
    group = group_of(visit)
    choice = choice_of(visit.request.query, visit.desk.now_ms())
    is_all, first = bool(visit.text("all")), visit.number("from", 0, SCANNED_MAX)
    scan = Scan()
    with visit.desk.admin() as admin:
        places = dead_letters.queues(admin, admin.wrapped(group.name), most=facts.LETTERS_ASKED)
        rows: list[dict[str, Any]] = []
        causes = dead_letters.causes(_noted(admin, _newest(admin, places, scan, is_all=is_all), choice, rows))
    rows.sort(key=lambda each: (each["stored_ms"], each["offset"]), reverse=True)
    chosen = {name: visit.text(name) for name in CHOICE}
    dealt = sum(each.done for each in places)
    whole = sum(each.end - each.low for each in places) - (0 if is_all else dealt)
    return BrowserPage(
        "letters.html",
        f"{group.name}: dead letters",
        {
            "group": group,
            "causes": [
                {
                    "cause": each,
                    "link": address("/dead-letters", group=group.name, reason=_finds(each), all="yes" * is_all),
                }
                for each in causes[:50]
            ],
            "rows": rows[first : first + PAGE],
            "count": len(rows),
            "whole": whole,
            "dealt": dealt,
            "unasked": sum(each.unasked for each in places),
            "scanned": scan.scanned,
            "is_cut": scan.scanned < whole,
            "gone": scan.gone,
            "chosen": chosen,
            "is_chosen": any(chosen.values()),
            "all": is_all,
            "first": first,
            "page": PAGE,
        },
    )


def _finds(cause: Cause) -> str:
    """What finds the letters of this cause."""
    return cause.error or (cause.reason or "")[:REASON_MAX] or cause.line or ""


def _newest(admin: Admin, places: Sequence[LetterQueue], scan: Scan, *, is_all: bool) -> Iterator[Letter]:
    """Block by block from the end of each queue, as far as a page may look: the first one tells how large they are."""
    ends = {each.queue: each.end for each in places}
    count = BLOCK_MIN
    while scan.read_bytes < BYTES_MAX and scan.scanned < SCANNED_MAX:
        block = [
            replace(each, low=max(begin, ends[each.queue] - count), end=ends[each.queue])
            for each in places
            if (begin := each.low if is_all else each.begin) < ends[each.queue]
        ]
        if not block:
            return
        yield from dead_letters.letters(admin, block, scan, is_all=is_all)
        ends |= {each.queue: each.low for each in block}
        mean = max(scan.read_bytes // max(scan.scanned, 1), 1) * len(block)
        count = min(max((BYTES_MAX - scan.read_bytes) // mean, 1), BLOCK_MAX)


def _noted(admin: Admin, found: Iterator[Letter], choice: LetterChoice, rows: list[dict[str, Any]]) -> Iterator[Letter]:
    """Those that are meant. Of each a row is kept, and no body: thousands of them may be too large for this process."""
    for letter in found:
        if choice.has(letter):
            rows.append(_row(admin, letter))
            yield letter


def _row(admin: Admin, letter: Letter) -> dict[str, Any]:
    return {
        "id": letter.message.message_id,
        "topic": None if letter.origin_topic is None else admin.unwrapped(letter.origin_topic),
        "keys": " ".join(letter.message.keys),
        "place": letter.place,
        "dead_ms": letter.dead_ms,
        "stored_ms": letter.message.stored_ms,
        "offset": letter.message.queue_offset,
        "attempts": letter.attempts,
        "reason": letter.reason or letter.error,
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
                "letter": letter,
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
