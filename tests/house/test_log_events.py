"""catalogue/events.md has a row for each log event, with its levels and fields, and no row for anything else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from framework.catalogue.pages import content, events_in, ids_of_events
from tests.house.log_events import LEVELS, ROOT, Event, events, events_of

pytestmark = pytest.mark.xdist_group("sources")  # which are read once a process
PAGE = content("events.md")
ORDER = ("error", "warning", "info", "debug")
WORDS_MAX = 4


def complaints(page: str, found: dict[str, dict[str, Event]]) -> Iterator[str]:
    """What the page says otherwise than the sources."""
    rows = {(row.room.partition("/")[2], row.name): row for row in events_in(page)}
    events_found = {(room, event): each for room, by_name in found.items() for event, each in by_name.items()}
    yield from (f"events.md: {room}: no row for {event!r}" for room, event in sorted(events_found.keys() - rows.keys()))
    yield from (
        f"events.md: {room}: nothing logs {event!r}" for room, event in sorted(rows.keys() - events_found.keys())
    )
    ids: dict[str, str] = {}
    named: dict[str, str] = {}
    for (room, event), row in rows.items():
        if (room, event) not in events_found:
            continue
        each = events_found[room, event]
        if list(row.levels) != [level for level in ORDER if level in each.levels]:
            found_as = ", ".join(sorted(each.levels))
            yield f"events.md: {room}: {event!r} is logged as {found_as}, not {', '.join(row.levels)}"
        if missing := sorted(each.fields.keys() - set(row.fields)):
            yield f"events.md: {room}: {event!r} has fields that its row lacks: {', '.join(missing)}"
        if not row.when or not row.remedy:
            yield f"events.md: {room}: {event!r}: say when it is logged, and what to do"
        if bool(row.id) != bool(each.levels & {"warning", "error"}):
            yield f"events.md: {room}: {event!r}: warnings and errors have an id, others have none"
        if ids.setdefault(event, row.id) != row.id:
            yield f"events.md: {room}: {event!r} has another id in another room"
        if row.id and named.setdefault(row.id, event) != event:
            yield f"events.md: {room}: {row.id} is the id of {named[row.id]!r} too, not of {event!r} alone"


def test_each_event_has_a_row_and_each_row_an_event() -> None:
    assert [] == list(complaints(PAGE, events()))


@pytest.mark.parametrize(
    ("event", "page", "complaint"),
    [
        ("queue lost", PAGE, "services: no row for 'queue lost'"),
        ("queue stalled", re.sub(r"\| `queue stalled` .*\n", "", PAGE), "services: no row for 'queue stalled'"),
        ("queue stalled", PAGE.replace("| `queue moved` |", "| `queue gone` |"), "services: nothing logs 'queue gone'"),
        ("queue stalled", re.sub(r"(\| `queue stalled` \| \S+ \|) error", r"\1 info", PAGE), "not info"),
        (
            "queue stalled",
            re.sub(r"\| `queue stalled` \| \S+ \|", "| `queue stalled` |  |", PAGE),
            "have an id, others",
        ),
        (
            "queue stalled",
            re.sub(r"\| `app started` \|  \|", "| `app started` | FA-A199 |", PAGE),
            "have an id, others",
        ),
        (
            "queue stalled",
            re.sub(r"\| `queue moved` \| \S+ \|", f"| `queue moved` | {ids_of_events()['queue stalled']} |", PAGE),
            "is the id of 'queue moved' too, not of 'queue stalled' alone",
        ),
        ("queue stalled", PAGE.replace("`pull_age_ms`", ""), "fields that its row lacks: pull_age_ms"),
    ],
    ids=lambda each: "page" if "\n" in each else each,
)
def test_a_page_that_is_not_as_the_sources_are_is_seen(event: str, page: str, complaint: str) -> None:
    changed = {**events(), "services": {event: Event({"error"}, {}), **events()["services"]}}

    assert any(complaint in each for each in complaints(page, changed))


def test_an_event_is_found_however_it_is_written() -> None:
    source = """
def look(lines, quiet):
    log.warning("queue left", group=1, exc_info=True)
    structlog.get_logger().exception("loop failed")
    told = log.debug if quiet else log.info
    told("pull failed", queue=2)
    (log.debug if quiet else log.info)("pull recovered")
    log.info("clock right" if quiet else "clock wrong")
    event = "all well" if quiet else "all bad"
    (log.info if quiet else log.error)(event)
    lines.say("info", "queue blocked", (), first=3, offset=4)
"""
    expected = [
        ("queue left", "warning", ["group"]), ("loop failed", "error", []),
        ("pull failed", "debug", ["queue"]), ("pull failed", "info", ["queue"]),
        ("pull recovered", "debug", []), ("pull recovered", "info", []),
        ("clock right", "info", []), ("clock wrong", "info", []),
        ("all well", "info", []), ("all bad", "error", []), ("queue blocked", "info", ["offset"]),
    ]  # fmt: skip
    assert sorted(expected) == sorted(events_of(ast.parse(source), "framework/x.py"))
    with pytest.raises(AssertionError, match=r"framework/x.py:3: write the event as a text, not f'queue \{x\}'"):
        list(events_of(ast.parse("def f(x):\n    y = x\n    log.info(f'queue {x}')"), "framework/x.py"))


def test_an_event_is_a_few_words_without_a_clause() -> None:
    """What is behind it, and the way out, are fields: events are what alerts match."""
    for event in {event for by_name in events().values() for event in by_name}:
        assert re.fullmatch(r"[A-Za-z-]+( [a-z-]+)*", event), event
        assert len(event.split()) <= WORDS_MAX, event


def test_every_level_is_one_that_the_page_orders() -> None:
    assert set(LEVELS.values()) == set(ORDER)


def test_the_readme_names_the_page() -> None:
    assert "(docs/logs.md)" in (ROOT / "README.md").read_text()
