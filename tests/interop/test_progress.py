"""What ended above a stuck message is not repeated by another process, on a stock cluster and on the box."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.interop.application import Application
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.places import Place
from tests.interop.processes import Nursery

pytestmark = pytest.mark.interop
HANDLERS = Path(__file__).with_name("stuck_app.py")
COUNT = 101


def test_a_kill_beside_one_stuck_message_repeats_that_one(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """The article's 2101 and 2102 to 2200, from 0 on: 1 is stuck, 2 to 100 have ended when the process is killed."""
    topic, release = place.new_topic(), tmp_path / "release"
    group = f"readers-of-{topic}"
    java.send(place.name_server, topic, [Outgoing(body=b"%d" % number) for number in range(COUNT)], how="batch")

    def start(name: str) -> Application:
        (tmp_path / name).mkdir()
        return Application(
            nursery, tmp_path / name, place.name_server, topic=topic, group=group, handlers=HANDLERS,
            environment={"STUCK_RELEASE": str(release)}, progress="topic",
        )  # fmt: skip

    first = start("first")
    first.received(COUNT)
    time.sleep(4)  # a gap that stays is kept within two flushes
    first.kill()
    second = start("second")
    assert [b"1"] == [message.body for message in second.received(1, timeout_s=150)]
    release.touch()
    time.sleep(3)
    ended = second.stop()
    assert [b"1"] == [message.body for message in second.so_far()]
    assert (0, 1) == (ended.code, ended.events[-1]["handled"])

    third = start("third")
    time.sleep(5)
    third.stop()
    assert not third.so_far()
    assert "progress taken over" in second.said()
