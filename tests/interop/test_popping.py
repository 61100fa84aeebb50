"""POP: Java's push consumer pops from the box as from RocketMQ, by an administrator's `setConsumeMode`."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.interop.application import Application
from tests.interop.java_peer import Incoming, JavaPeer, Member, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = pytest.mark.interop

CLUSTER = "DefaultCluster"


def pops(place: Place, java: JavaPeer, topic: str, *, share: int = 0) -> tuple[str, Admin]:
    """A group that pops the topic."""
    admin, group = Admin(java, place.name_server), f"popping-{topic}"
    admin.run("updateSubGroup", "-c", CLUSTER, "-g", group)
    said = admin.run("setConsumeMode", "-c", CLUSTER, "-t", topic, "-g", group, "-m", "POP", "-q", str(share))
    assert "set consume mode to" in said
    assert "success" in said
    return group, admin


def received(members: list[Member], count: int, *, timeout_s: float) -> list[Incoming]:
    """What the members were handed, until it is `count` together."""
    found: list[Incoming] = []
    until = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < until:
        for member in members:
            found += member.received(1, timeout_s=0.5)
    return found


def test_java_s_members_share_a_queue_by_popping(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()
    java.send(place.name_server, topic, [Outgoing(body=b"first")])
    group, _ = pops(place, java, topic)
    members = [java.consume(place.name_server, group, topic, divided_by_broker=True) for _ in range(2)]
    wait_until(lambda: bool(received(members, 1, timeout_s=5)), "the first message")
    bodies = {b"%d" % i for i in range(60)}
    java.send(place.name_server, topic, [Outgoing(body=body) for body in bodies])
    found = received(members, 60, timeout_s=60)
    for member in members:
        member.leave()

    assert sorted(bodies) == sorted(message.body for message in found), "each once"


@pytest.mark.long
def test_what_java_fails_comes_back_by_the_pop_retry_topic(place: Place, java: JavaPeer) -> None:
    """The listener fails the first attempt: Java changes the invisible time, and the broker brings the message back."""
    topic = place.new_topic()
    java.send(place.name_server, topic, [Outgoing(body=b"warm", keys="warm")])
    group, admin = pops(place, java, topic)
    member = java.consume(place.name_server, group, topic, divided_by_broker=True, failures=1)
    found = received([member], 2, timeout_s=120)
    member.leave()

    assert [b"warm", b"warm"] == [message.body for message in found]
    assert [0, 1] == [message.reconsumed for message in found]
    # A name server hears of a new topic with the broker's next registration.
    wait_until(lambda: f"%RETRY%{group}_{topic}" in admin.run("topicList"), "the retry topic of the pops")


def ours(place: Place, nursery: Nursery, folder: Path, topic: str, group: str, **more: Any) -> Application:
    folder.mkdir(exist_ok=True)
    return Application(nursery, folder, place.name_server, topic=topic, group=group, **{"invisible": "5s", **more})


def test_our_members_pop_and_what_they_fail_comes_again(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """Each message fails once: its time is changed, and the broker brings it back with the next attempt."""
    topic = place.new_topic()
    bodies = {b"%d" % i for i in range(40)}
    java.send(place.name_server, topic, [Outgoing(body=body) for body in bodies])
    members = [
        ours(place, nursery, tmp_path / str(i), topic, f"g-{topic}", delivery="pop", failures=1) for i in range(2)
    ]
    wait_until(lambda: sum(len(each.so_far()) for each in members) >= 80, "each message twice", 120)
    found = [message for member in members for message in member.so_far()]
    ends = [member.stop() for member in members]

    assert sorted([*bodies, *bodies]) == sorted(message.body for message in found)
    assert {body: [1, 2] for body in bodies} == {
        body: sorted(message.attempt for message in found if message.body == body) for body in bodies
    }
    assert [0, 0] == [end.code for end in ends]


def test_java_s_and_our_members_pop_one_topic_together(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """Ours by `delivery: broker`: both go by what the administrator has set."""
    topic = place.new_topic()
    java.send(place.name_server, topic, [Outgoing(body=b"first")])
    group, _ = pops(place, java, topic)
    theirs = java.consume(place.name_server, group, topic, divided_by_broker=True)
    member = ours(place, nursery, tmp_path / "ours", topic, group, delivery="broker", pause_s=0.2)
    java_s: list[Incoming] = []

    def is_shared() -> bool:
        """Both get some; more is sent until that is so."""
        java.send(place.name_server, topic, [Outgoing(body=b"more")] * 20)
        java_s.extend(theirs.received(1, timeout_s=1))
        return bool(java_s) and bool(member.so_far())

    wait_until(is_shared, "messages for both", 90)
    theirs.leave()
    assert 0 == member.stop().code


@pytest.mark.long
def test_what_came_back_of_pops_is_handled_though_the_group_pulls_again(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """Each message fails once; then an administrator has the group pull, while members hold messages."""
    topic = place.new_topic()
    java.send(place.name_server, topic, [Outgoing(body=b"first")])
    group, admin = pops(place, java, topic)
    bodies = {b"%d" % i for i in range(120)}
    java.send(place.name_server, topic, [Outgoing(body=body) for body in bodies])
    members = [
        ours(place, nursery, tmp_path / str(i), topic, group, delivery="broker", failures=1, pause_s=0.2, concurrency=2)
        for i in range(2)
    ]

    def tried(least: int) -> set[bytes]:
        return {message.body for each in members for message in each.so_far() if message.attempt >= least}

    wait_until(lambda: len(tried(1)) >= 20, "the first messages", 60)
    admin.run("setConsumeMode", "-c", CLUSTER, "-t", topic, "-g", group, "-m", "PULL", "-q", "0")
    wait_until(lambda: tried(2) == {*bodies, b"first"}, "each message once more", 150)
    ends = [member.stop() for member in members]

    assert [0, 0] == [end.code for end in ends]


def test_a_paused_application_s_messages_come_to_the_group_s_other_members(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """Two workers of ours, another application and one of Java's pop together. What the workers have not started when
    their command pauses them is handled by the others, long before its time is over.
    """
    topic, control = place.new_topic(), tmp_path / "control.sock"
    java.send(place.name_server, topic, [Outgoing(body=b"first")])
    group, _ = pops(place, java, topic)
    slow: dict[str, Any] = {"delivery": "pop", "invisible": "5m", "pause_s": 0.5, "concurrency": 2}
    paused = ours(
        place,
        nursery,
        tmp_path / "paused",
        topic,
        group,
        options=("--workers", "2"),
        app={"control": str(control)},
        **slow,
    )
    wait_until(lambda: len(paused.so_far()) >= 1, "the first message", 60)
    bodies = {b"%d" % i for i in range(150)}
    java.send(place.name_server, topic, [Outgoing(body=body) for body in bodies])
    wait_until(lambda: len(paused.so_far()) >= 5, "the workers are at it", 60)
    theirs = java.consume(place.name_server, group, topic, divided_by_broker=True)
    other = ours(place, nursery, tmp_path / "other", topic, group, **{**slow, "pause_s": 0.01})
    assert ExitCode.CLEAN == main.run(["pause", group, "--socket", str(control), "--yes"])
    java_s: list[Incoming] = []

    def handled() -> set[bytes]:
        java_s.extend(theirs.received(1, timeout_s=0.2))
        own = [message.body for each in (paused, other) for message in each.so_far()]
        return {*own, *(message.body for message in java_s)}

    wait_until(lambda: handled() >= bodies, "all messages", 120)
    by_paused = [message.body for message in paused.so_far()]
    theirs.leave()
    ends = [each.stop().code for each in (paused, other)]

    assert len(by_paused) < 100, "most were given back"
    assert [0, 0] == ends


@pytest.mark.parametrize(
    ("count", "kills"), [(2_000, 3), pytest.param(100_000, 20, marks=[pytest.mark.slow, pytest.mark.timeout(1500)])]
)
def test_members_are_killed_and_all_is_handled(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path, count: int, kills: int
) -> None:
    """Three members pop; one after another is ended by SIGKILL, and a new one takes its place."""
    topic = place.new_topic()
    group = f"killed-{topic}"
    java.send(place.name_server, topic, [Outgoing(body=b"first")])
    java.fill(place.name_server, topic, count, body_bytes=100, batch=32)
    names = iter(range(10_000))

    def member() -> Application:
        folder = tmp_path / str(next(names))
        return ours(place, nursery, folder, topic, group, delivery="pop", concurrency=10)

    alive, records = [member() for _ in range(3)], list[Application]()

    def handled() -> Counter[str]:
        return Counter(message.message_id for each in (*records, *alive) for message in each.so_far())

    for number in range(kills):
        wanted = (number + 1) * count // (kills + 2)
        wait_until(lambda wanted=wanted: len(handled()) >= wanted, f"{wanted} messages", 300)  # type: ignore[misc]
        ended = alive.pop(0)
        ended.kill()
        records.append(ended)
        alive.append(member())
    wait_until(lambda: len(handled()) >= count + 1, "all messages", 600)
    repeats = sum(handled().values()) - count - 1
    codes = [each.stop().code for each in alive]
    print({"messages": count, "kills": kills, "repeats": repeats})

    assert [0, 0, 0] == codes
    assert repeats <= kills * 2 * 96, "what each held, and no more"
