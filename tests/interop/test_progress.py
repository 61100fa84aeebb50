"""What ended above a stuck message is not repeated by another process, on a stock cluster and on the box."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.model.queue import MessageQueue
from tests.client.stranger import says_all_is_done
from tests.interop.application import Application
from tests.interop.cluster import Addresses, Cluster
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = pytest.mark.interop
HERE = Path(__file__).parent
FLUSH_S = 1.0
NOTED = ("--set", "logging.level=debug")
"""For `has_kept`."""


def test_a_kill_beside_one_stuck_message_repeats_that_one(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """The article's 2101 and 2102 to 2200, from 0 on: 1 is stuck, 2 to 100 have ended when the process is killed.

    With default settings: nobody has to have found `progress`.
    """
    beside_a_stuck_one(place, java, nursery, tmp_path, stuck=1, count=101)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_2101_is_stuck_and_2102_to_2200_are_not_repeated(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """With the article's own numbers: `make slow PART=2101`."""
    beside_a_stuck_one(place, java, nursery, tmp_path, stuck=2101, count=2201, progress="topic")


def beside_a_stuck_one(
    place: Place, java: JavaPeer, nursery: Nursery, folder: Path, *, stuck: int, count: int, progress: str = ""
) -> None:
    """All but one of so many have ended when the process is killed; then another one takes over, and a third one."""
    topic, release = place.new_topic(), folder / "release"
    group = f"readers-of-{topic}"
    java.send(place.name_server, topic, [Outgoing(body=b"%d" % number) for number in range(count)], how="batch")

    def start(name: str) -> Application:
        (folder / name).mkdir()
        return Application(
            nursery, folder / name, place.name_server, topic=topic, group=group, handlers=HERE / "stuck_app.py",
            environment={"STUCK_RELEASE": str(release), "STUCK_BODY": str(stuck)},
            options=(*NOTED, *(("--set", f"consumers.{group}.progress={progress}") if progress else ())),
        )  # fmt: skip

    first = start("first")
    handled = first.received(count)
    (queue,) = {message.queue for message in handled}
    wait_until(lambda: has_kept(first, stuck, count), "a gap that lasts is kept")
    first.kill()
    second = start("second")
    again = second.received(1, timeout_s=150)
    assert [b"%d" % stuck] == [message.body for message in again]
    assert stuck == stored(java, place, topic, group, queue)
    release.touch()
    wait_until(lambda: stored(java, place, topic, group, queue) == count, "the offset behind the last one")
    ended = second.stop()
    assert [b"%d" % stuck] == [message.body for message in second.so_far()]
    assert (0, 1) == (ended.code, ended.events[-1]["handled"])

    third = start("third")
    time.sleep(5)
    third.stop()
    assert not third.so_far()
    assert "progress taken over" in second.said()
    print(f"{stuck} of {count} stuck, SIGKILL: 1 came again; then the stored offset was {count}")


def test_where_brokers_make_no_topics_a_start_again_repeats_the_stuck_one_alone(
    java: JavaPeer, numbers: Callable[[], str], nursery: Nursery, tmp_path: Path
) -> None:
    """With default settings on a broker with autoCreateTopicEnable=false: files of this machine, and one line of it.

    It has a cluster of its own: set to true again, its broker makes no topics until it is started anew.
    """
    topic, release, home = f"closed-{numbers()}", tmp_path / "release", tmp_path / "home"
    home.mkdir()
    with Cluster(tmp_path / "cluster", nursery) as cluster:
        java.send(cluster.name_server, topic, [Outgoing(body=b"%d" % number) for number in range(101)], how="batch")
        admin = Admin(java, cluster.name_server)
        for address in cluster.addresses.brokers.values():
            admin.run("updateBrokerConfig", "-b", address, "-k", "autoCreateTopicEnable", "-v", "false")

        def start(name: str) -> Application:
            (tmp_path / name).mkdir()
            return Application(
                nursery, tmp_path / name, cluster.name_server, topic=topic, group=f"readers-of-{topic}",
                handlers=HERE / "stuck_app.py",
                environment={"STUCK_RELEASE": str(release), "STUCK_BODY": "1", "HOME": str(home)}, options=NOTED,
            )  # fmt: skip

        first = start("first")
        first.received(101)
        wait_until(lambda: has_kept(first, 1, 101), "a record")
        first.kill()
        second = start("second")
        second.received(1, timeout_s=60)
        release.touch()
        time.sleep(3)
        second.stop()
        assert [b"1"] == [message.body for message in second.so_far()]
        assert not first.so_far()[101:]
    (line,) = [line for line in first.said().splitlines() if "progress" in line and "debug" not in line]
    assert all(word in line for word in ("info", "store=local", "not in a topic: SEND_MESSAGE_V2 (310) refused")), line


def test_what_a_stranger_writes_to_the_group_s_topic_costs_no_message(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """Everybody may write there, as on a stock cluster without access control; the group has a key of its own."""
    topic = place.new_topic()
    group = f"readers-of-{topic}"

    def start(name: str) -> Application:
        (tmp_path / name).mkdir()
        return Application(
            nursery, tmp_path / name, place.name_server, topic=topic, group=group, progress="topic",
            options=("--set", "progress.key=of-the-members"),
        )  # fmt: skip

    java.send(place.name_server, topic, [Outgoing(body=b"%d" % number) for number in range(30)], how="batch")
    first = start("first")
    (queue,) = {MessageQueue(topic, each.broker, each.queue) for each in first.received(30)}
    assert 0 == first.stop().code
    there = (queue.broker, queue.number)
    java.send(place.name_server, topic, [Outgoing(body=b"%d" % number) for number in range(30)], queue=there)
    asyncio.run(says_all_is_done(place.name_server, group, queue, 30, 60))
    second = start("second")
    assert list(range(30, 60)) == sorted(message.offset for message in second.received(30))
    second.stop()
    assert "progress discarded" in second.said()


def has_kept(application: Application, stuck: int, count: int) -> bool:
    """Whether it has kept that all but one of so many have ended."""
    return bool(re.search(rf"progress kept.* ranges=\W*{stuck + 1}, {count}\W", application.said()))


def stored(java: JavaPeer, place: Place, topic: str, group: str, queue: int) -> int:
    """The group's offset in this queue, as mqadmin shows it."""
    shown = Admin(java, place.name_server).run("consumerProgress", "-g", group)
    found = re.search(rf"^{re.escape(topic)}\s+\S+\s+{queue}\s+\d+\s+(\d+)\s", shown, re.MULTILINE)
    assert found, shown
    return int(found[1])


@dataclass(frozen=True, slots=True)
class Noted:
    """When a member began with messages and ended them, by their places."""

    begun: list[tuple[str, float]]
    ended: dict[str, float]


class Busy:
    """A process with `busy_app.py`."""

    def __init__(self, nursery: Nursery, folder: Path, name_server: str, topic: str, stuck: str, release: Path) -> None:
        folder.mkdir()
        self._file = folder / "noted"
        environment = {
            "BUSY_FILE": str(self._file), "BUSY_PAUSE_S": "0.005", "BUSY_STUCK": stuck, "BUSY_RELEASE": str(release),
        }  # fmt: skip
        self.application = Application(
            nursery, folder, name_server, topic=topic, group=f"busy-with-{topic}", handlers=HERE / "busy_app.py",
            environment=environment, progress="topic",
        )  # fmt: skip

    @property
    def lines(self) -> int:
        return self._file.read_bytes().count(b"\n") if self._file.exists() else 0

    def noted(self) -> Noted:
        lines = [line.split() for line in self._file.read_text().splitlines()] if self._file.exists() else []
        begun = [(place, float(at)) for sign, place, at in lines if sign == "+"]
        return Noted(begun, {place: float(at) for sign, place, at in lines if sign == "-"})


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_of_40_000_a_kill_beside_a_stuck_one_repeats_what_one_flush_had_not_kept(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str], nursery: Nursery, tmp_path: Path
) -> None:
    """As Java's client was measured: three members, eight queues, 5 ms a message. `make slow PART=40_000`."""
    topic, release, stuck, count = new_topic(queues=8), tmp_path / "release", "0:100", 40_000
    java.fill(cluster.name_server, topic, count)
    members = [Busy(nursery, tmp_path / name, cluster.name_server, topic, stuck, release) for name in ("a", "b", "c")]
    wait_until(lambda: sum(each.lines for each in members) >= count, "the first half", 120, pause_s=0.1)
    owner = next(each for each in reversed(members) if any(place == stuck for place, _ in each.noted().begun))
    owner.application.kill()
    killed, gone = time.monotonic(), owner.noted()
    left = [each for each in members if each is not owner]

    def ended() -> int:
        return len(set().union(*(each.noted().ended for each in members)))

    wait_until(lambda: ended() == count - 1, "all but the stuck one", 120, pause_s=0.5)
    release.touch()
    wait_until(lambda: ended() == count, "the stuck one", pause_s=0.2)
    codes = [each.application.stop().code for each in left]

    times = Counter(place for each in members for place, _ in each.noted().begun)
    repeats = sum(times.values()) - len(times)
    running = {place for place, _ in gone.begun} - set(gone.ended)
    lately = sum(at > killed - FLUSH_S for at in gone.ended.values())
    print(
        f"one stuck of {count}, SIGKILL after {len(gone.ended)} of its messages: "
        f"{repeats} repeats; it had ended {lately} in its last second, and was at work on {len(running)}"
    )
    assert [0, 0] == codes
    assert stuck in running
    assert times[stuck] == 2
    assert repeats <= lately + len(running)
