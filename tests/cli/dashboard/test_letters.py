"""Dead letters in the dashboard: the newest first, what a search finds, and what is done with those that are meant."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from framework import Message
from framework.admin import dead_letters
from framework.admin.browse import Scan
from framework.admin.replays import _commit
from framework.cli.commands import dlq
from framework.cli.dashboard.jobs import Job, Jobs
from framework.cli.dashboard.views import letters as view
from framework.model.queue import MessageQueue
from framework.net.http.messages import HttpRefused
from tests.cli.dashboard.desks import Visitor, look, text, visitor
from tests.cli.live import played
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, thread_box

COUNT = 120


def letter(number: int) -> Message:
    error = {"DEAD_LETTER_ERROR": "KeyError"} if number % 2 else {}
    reason = {"DEAD_LETTER_REASON": f"(card) {number} of 9" if number % 2 == 0 else "'card'"}
    origin = {"DEAD_LETTER_ORIGIN": f"orders@broker-a:0:{number}"}
    return Message("%DLQ%billing", b"x" * 1000, keys=(f"key-{number}",), properties={**error, **reason, **origin})


@pytest.fixture
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        box.send("orders", [Message("orders", b"first")], queue=0)
        box.send("%DLQ%billing", [letter(number) for number in range(COUNT)], queue=0)
        with visitor(box.address).site.desk.admin() as admin:  # a group is one once it has committed
            admin.route("orders")
            _commit(admin, "billing", MessageQueue("orders", "broker-a", 0), 0)
        yield box


@pytest.fixture
def who(box: ThreadBox) -> Visitor:
    found = visitor(box.address, writes=True)
    found.open()
    look(found)
    found.site.desk.watching.again = found.site.desk.watching.latest  # type: ignore[method-assign]  # no thread looks
    return found


def keys(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'data-label="Keys">key-(\d+)<', page)]


def test_the_newest_come_first_page_by_page(who: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "BLOCK_MAX", 7)
    pages = [who.get(f"/dead-letters?group=billing&from={first}") for first in (0, 50, 100)]
    assert list(range(COUNT))[::-1] == [each for page in pages for each in keys(page)]
    assert "120 wait." in pages[0]
    assert "101 to 120 of 120" in pages[2]


@pytest.mark.parametrize(("name", "most", "fewest"), [("SCANNED_MAX", 40, 40), ("BYTES_MAX", 40_000, 21)])
def test_of_too_many_the_newest_are_seen(
    who: Visitor, monkeypatch: pytest.MonkeyPatch, name: str, most: int, fewest: int
) -> None:
    """Their bodies are read with them: thousands of large ones would take all memory of an application. The first block
    tells how large they are, so that a limit of bytes is one within a block, too.
    """
    monkeypatch.setattr(view, "BLOCK_MAX", 20 if name == "SCANNED_MAX" else view.BLOCK_MAX)
    monkeypatch.setattr(view, name, most)
    page = who.get("/dead-letters?group=billing")
    seen = keys(page)
    assert list(range(COUNT - len(seen), COUNT))[::-1] == seen
    assert fewest <= len(seen) <= 40
    assert f"Only the newest {len(seen)} were looked at" in page


def test_no_body_is_kept_for_a_list(who: Visitor) -> None:
    with who.site.desk.admin() as admin:
        places = dead_letters.queues(admin, "billing")
        rows: list[dict[str, Any]] = []
        found = view._newest(admin, places, Scan(), is_all=False)
        for _ in view._noted(admin, found, dead_letters.LetterChoice(), rows):
            pass
    assert COUNT == len(rows)
    assert {str, int, type(None)} >= {type(value) for row in rows for value in row.values()}


def test_a_search_says_how_many_it_found_of_how_many(who: Visitor) -> None:
    page = who.get("/dead-letters?group=billing&key=key-7")
    assert [7] == keys(page)
    assert "1 found of 120 that wait" in page


def test_each_cause_leads_to_its_letters(who: Visitor) -> None:
    """Also where figures in their reasons differ, and where these look like a regular expression."""
    page = who.get("/dead-letters?group=billing")
    links = re.findall(r'data-label="Error"><a href="/dead-letters\?([^"]*)"', page)
    found = []
    for link in links:
        fields = dict(parse_qsl(html.unescape(link)))
        found.append(re.search(r"(\d+) found of 120", who.get(f"/dead-letters?{html.unescape(link)}")))
        assert "billing" == fields["group"]
    assert ["60", "60"] == [each and each[1] for each in found]


@pytest.mark.parametrize("address", ["/dead-letters", "/plan/replay", "/plan/drop"])
def test_no_regular_expression_is_tried(who: Visitor, address: str) -> None:
    """One like this takes for ever on a reason that a producer chose, and holds the interpreter meanwhile."""
    answer = who.ask("GET", f"{address}?group=billing&reason=~(a%2B)%2B$")
    assert 400 == answer.status
    assert "a regular expression is for the command" in text(answer)


def done(who: Visitor, answer_location: str) -> Job:
    job = who.site.desk.jobs.of(answer_location.rpartition("=")[2])
    assert job is not None
    wait_until(lambda: job.state != "running", "the job's end")
    assert ("done", "") == (job.state, job.why)
    return job


def test_those_that_are_meant_are_passed_over_from_among_the_others(who: Visitor) -> None:
    plan = who.get("/plan/drop?group=billing&reason=KeyError&limit=3")
    assert "3 dead letters are passed over" in plan
    answer = who.post("/act/drop", group="billing", typed="billing", reason="KeyError", limit="3")
    assert 303 == answer.status, text(answer)
    assert {"sent": 3} == dict(done(who, answer.headers["location"]).tally)
    assert "<dt>passed over</dt><dd>3</dd>" in who.get(answer.headers["location"])
    page = who.get("/dead-letters?group=billing&from=100")
    assert [8, 7, 6, 4, 2, 0] == keys(page)[-6:]
    assert "117 wait; 3 more were replayed or passed over" in page
    assert ["dashboard dlq drop began", "dashboard dlq drop"] == [what for what, _ in who.audits[1:]]


def test_one_letter_is_passed_over(who: Visitor) -> None:
    place = "%DLQ%billing@broker-a:0:4"
    assert "1 dead letter is passed over" in who.get(f"/plan/drop?group=billing&place={place}")
    answer = who.post("/act/drop", group="billing", typed="billing", place=place)
    assert {"sent": 1} == dict(done(who, answer.headers["location"]).tally)
    assert "1 more were replayed" in who.get("/dead-letters?group=billing")


def test_a_button_that_is_pressed_twice_begins_one_replay(who: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at a time would send a letter twice."""
    gate = threading.Event()
    monkeypatch.setattr(dlq, "pacer", lambda _: gate.wait)
    fields = {"group": "billing", "typed": "billing", "limit": "2"}
    first, second = (who.post("/act/replay", None, **fields) for _ in range(2))
    other = who.post("/act/drop", group="billing", typed="billing", key="key-9")
    gate.set()
    assert {"sent": 2} == dict(done(who, first.headers["location"]).tally)
    assert first.headers["location"] == second.headers["location"]
    assert 409 == other.status
    assert "a job of billing runs: Replay of 2 dead letters" in text(other)
    assert 1 == len(who.site.desk.jobs.all)


def test_jobs_of_other_groups_run_beside_it_up_to_a_limit() -> None:
    started: list[str] = []
    jobs = Jobs(lambda _, name: started.append(name), lambda: 0)
    for number in range(4):
        jobs.start("t", f"g{number}", "replay", 1, lambda _: None)
    with pytest.raises(HttpRefused, match="4 jobs run already"):
        jobs.start("t", "g9", "replay", 1, lambda _: None)
    assert 4 == len(started)


def test_a_pause_says_for_how_long_why_and_by_whom(box: ThreadBox, tmp_path: Path) -> None:
    snapshot = played.picture(played.group(), name_servers=(box.address,))
    told = {"snapshot": played.worker(snapshot), "pause": {"paused": True}}
    path = tmp_path / "control"
    with played.listening(path, played.Played(**told)) as application:
        who = visitor(box.address, writes=True, sockets=lambda: [path])
        who.open()
        look(who)
        who.site.desk.watching.again = who.site.desk.watching.latest  # type: ignore[method-assign]
        plan = who.get("/plan/pause?group=billing&length=10m&reason=bank+is+down")
        assert "No handler starts for 10m, or until somebody resumes the group" in plan
        assert 400 == who.ask("GET", "/plan/pause?group=billing&length=soon").status
        assert 400 == who.post("/act/pause", group="billing", length="0s").status
        assert 303 == who.post("/act/pause", group="billing", length="10m", reason="bank is down").status
    (asked,) = application.changes
    assert ("10m", "bank is down") == (asked["length"], asked["reason"])
    assert f"dashboard session {who.audits[-1][1]['session']}" == asked["by"]
