"""What the dashboard tells of looks, one after the other: who stands still, what moved and why, who is silent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from framework.admin.replays import _commit
from framework.cli.dashboard import words
from framework.cli.dashboard.history import STANDING_MS, Track
from framework.cli.dashboard.watching import Look, Watching
from framework.model.queue import MessageQueue
from tests.cli.dashboard.desks import Visitor, look, visitor
from tests.cli.live import played
from tests.patience import wait_until
from tests.reading.threads import texts, thread_box

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in (0, 1))


def test_a_queue_stands_still_once_its_offset_stayed_for_a_minute_while_messages_wait() -> None:
    track = Track()
    track.watch(0, {FIRST: (5, 10), SECOND: (7, 1)})
    track.watch(STANDING_MS - 1, {FIRST: (5, 90), SECOND: (8, 1)})
    assert {} == track.standing
    track.watch(STANDING_MS, {FIRST: (5, 99), SECOND: (8, 2)})
    assert {FIRST: (STANDING_MS, 99)} == track.standing
    track.watch(STANDING_MS + 1, {SECOND: (8, 2)})
    assert {} == track.standing


def test_what_waited_for_nothing_in_between_did_not_stand_still() -> None:
    track = Track()
    for at_ms, waiting in ((0, {FIRST: (5, 1)}), (30_000, {}), (STANDING_MS, {FIRST: (5, 1)})):
        track.watch(at_ms, waiting)
    assert {} == track.standing


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([(5, "a", "ab"), (25, "b", "ab")], "b joined, and queues are shared anew"),
        ([(5, "a", "ac"), (25, "b", "abc")], "b joined, and queues are shared anew"),
        ([(5, None, "b")], "a left the group"),
        ([(5, "a", "ab"), (300, "b", "ab")], "members shared queues anew; nobody was seen to join or leave"),
        ([(5, None, "a"), (300, "a", "a")], "it had no owner"),
    ],
)
def test_a_queue_that_moves_names_who_came_or_went_before_it(
    steps: list[tuple[int, str | None, str]], why: str
) -> None:
    """Members look every 20 s, so a queue moves some looks after somebody joined."""
    track = Track()
    track.compare(0, {FIRST: "a"}, frozenset("a"))
    for second, owner, members in steps:
        track.compare(second * 1000, {FIRST: owner}, frozenset(members))
    assert why == track.moves[-1].why


@pytest.fixture
def away() -> Visitor:
    found = visitor("127.0.0.1:9")
    found.open()
    return found


def test_an_application_that_cannot_be_read_is_named_and_spoils_nothing(tmp_path: Path) -> None:
    """Of another version, say. The look goes on, and the next ones come."""
    told = {"odd": {"snapshot": {"name": "x"}}, "mad": {"workers": 7}, "shop": played.worker(played.picture())}
    paths = [tmp_path / name for name in (*told, "gone")]
    with thread_box() as box:
        who = visitor(box.address, sockets=lambda: paths)
        who.open()
        with (
            played.listening(paths[0], played.Played(snapshot=told["odd"])),
            played.listening(paths[2], played.Played(snapshot=told["shop"])),
        ):
            look(who)
        page, pages = who.get("/"), who.get("/applications")

    assert "application odd of this machine does not answer: its answer cannot be read (KeyError" in page
    assert "nobody listens at" in page
    assert "shop: ready" in pages
    assert "odd does not answer" in pages


def test_a_look_that_fails_is_said_and_is_not_the_last(away: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    watching, looks = away.site.desk.watching, [0]

    def fail(_: Watching) -> Any:
        looks[0] += 1
        if looks[0] == 2:
            watching.close()
        raise ZeroDivisionError("private")

    monkeypatch.setattr(Watching, "look", fail)
    monkeypatch.setattr("framework.cli.dashboard.watching.EVERY_SECONDS", 0.0)
    watching.run()
    assert 2 == looks[0]
    page = away.get("/")
    assert "a mistake in the dashboard (ZeroDivisionError)" in page
    assert "private" not in page


def test_a_change_is_followed_by_a_look_that_began_after_it(away: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was under way meanwhile shows what was before."""
    watching, now_ms, begun, gate = away.site.desk.watching, [100], threading.Event(), threading.Event()

    def slow(_: Watching) -> Look:
        began_ms = now_ms[0]
        begun.set()
        gate.wait()
        return Look(200, 200 - began_ms)

    monkeypatch.setattr(Watching, "look", slow)
    monkeypatch.setattr(watching, "_now_ms", lambda: now_ms[0])
    with ThreadPoolExecutor(2) as threads:
        looking = threads.submit(watching.run)
        begun.wait()
        now_ms[0] = 150
        changed = threads.submit(watching.again)
        wait_until(watching._soon.is_set, "the change asks for a look")
        gate.set()
        assert 150 <= 200 - changed.result().took_ms
        watching.close()
        looking.result()


def test_a_reason_that_holds_queues_is_said_once(tmp_path: Path) -> None:
    """By the application, and by the group that it has: the group's line leads to its queues."""
    path = tmp_path / "shop"
    with thread_box() as box:
        box.send("orders", texts("orders", 4), queue=0)
        with visitor(box.address).site.desk.admin() as admin:
            admin.route("orders")
            _commit(admin, "billing", MessageQueue("orders", "broker-a", 0), 0)
        held = played.group(queues=(played.queue("span is full"),))
        shown = played.picture(held, name_servers=(box.address,), not_ready=("it joins",))
        with played.listening(path, played.Played(snapshot=played.worker(shown))):
            who = visitor(box.address, sockets=lambda: [path])
            who.open()
            look(who)
            page = who.get("/")
    assert 1 == page.count("span is full")
    assert "shop: it joins" in page


def test_groups_stay_with_what_is_known_while_the_cluster_is_away(tmp_path: Path) -> None:
    """Their handlers run on, and can be paused: no broker is needed for that."""
    path = tmp_path / "shop"
    with thread_box() as box:
        box.send("orders", texts("orders", 4), queue=0)
        name_servers = box.address
    shown = played.picture(played.group(running=3), name_servers=(name_servers,))
    with played.listening(path, played.Played(snapshot=played.worker(shown), stacks={"handlers": []})):
        who = visitor(name_servers, sockets=lambda: [path], writes=True)
        who.open()
        look(who)
        group, plan, queues = (who.get(f"{at}?group=billing") for at in ("/group", "/plan/pause", "/queues"))
    assert words.UNKNOWN_STATE == who.site.desk.watching.latest().groups["billing"].state
    assert "3 of 20 handlers run" in group
    assert "cannot be looked at: no name server answers" in group
    assert "Nobody is in the group" not in group
    assert '<button class="danger">Pause</button>' in plan
    assert "has no queue of a topic" not in queues
