"""Where a group begins on a real cluster that has never seen it, and what it may leave out of what waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framework import Message, consumer
from tests.interop.application import Application
from tests.interop.cluster import Addresses
from tests.interop.inside import application, running, until
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery, wait_until
from tests.interop.test_consuming import lag

pytestmark = pytest.mark.interop

BROKER = "broker-a"
QUEUES = 2


class Stream:
    """A topic of two queues, and what was sent to it, under a name for each time."""

    def __init__(self, java: JavaPeer, name_server: str, topic: str) -> None:
        self._java, self.name_server, self.topic = java, name_server, topic

    def send(self, name: str, count: int = 3) -> set[bytes]:
        """So many to each queue."""
        sent: set[bytes] = set()
        for queue in range(QUEUES):
            bodies = [b"%s %d %d" % (name.encode(), queue, number) for number in range(count)]
            messages = [Outgoing(body=body) for body in bodies]
            self._java.send(self.name_server, self.topic, messages, queue=(BROKER, queue))
            sent |= set(bodies)
        return sent


@pytest.fixture
def stream(java: JavaPeer, cluster: Addresses, new_topic: Callable[..., str]) -> Stream:
    return Stream(java, cluster.name_server, new_topic(queues=QUEUES))


@pytest.mark.parametrize("start", ["first", "last", "time"])
def test_a_new_group_begins_where_its_settings_say(
    start: str, stream: Stream, nursery: Nursery, tmp_path: Path
) -> None:
    """A stock broker answers 0 for a group that it does not know in a topic so young; that is no stored offset."""
    old = stream.send("old")
    time.sleep(1.5)  # an instant between two messages
    between = time.time() - 0.7
    young = stream.send("young")
    chosen = datetime.fromtimestamp(between, UTC).isoformat() if start == "time" else start
    application = Application(
        nursery, tmp_path, stream.name_server, topic=stream.topic, group=f"new-on-{stream.topic}", start=chosen
    )
    wait_until(lambda: application.said().count("queue positioned") > QUEUES, "all positions", 60)  # and its retries'
    new = stream.send("new")
    expected = new | {"first": old | young, "last": set(), "time": young}[start]
    received = application.received(len(expected))
    ended = application.stop()

    assert expected == {each.body for each in received} == {each.body for each in application.so_far()}
    assert len(expected) == ended.events[-1]["handled"], "each once, and nothing else"


def seen_by(stream: Stream, **rule: Any) -> tuple[Any, list[bytes]]:
    """An application with such a rule, and the bodies that its handler was given."""
    seen: list[bytes] = []

    @consumer(stream.topic, f"new-on-{stream.topic}")
    async def note(message: Message) -> None:
        seen.append(message.body)

    return application(stream.name_server, note, of_group=rule), seen


def test_what_is_further_behind_than_the_rule_says_is_settled_unhandled(stream: Stream, admin: Admin) -> None:
    stream.send("waiting", 20)
    app, seen = seen_by(stream, skip_backlog_over=4)

    async def scenario() -> None:
        async with running(app):
            await until(lambda: app.counts.handled == QUEUES * 4)
            await asyncio.to_thread(stream.send, "new")
            await until(lambda: app.counts.handled == QUEUES * 7)
            (group,) = app.snapshot().groups
            assert QUEUES * 16 == group.skipped

    asyncio.run(scenario())
    late = {b"waiting %d %d" % (queue, number) for queue in range(QUEUES) for number in range(16, 20)}
    assert late | {b"new %d %d" % (queue, number) for queue in range(QUEUES) for number in range(3)} == set(seen)
    assert 0 == lag(admin, f"new-on-{stream.topic}"), "what was skipped counts as done at the broker"


def test_what_is_older_than_the_rule_says_is_settled_unhandled(stream: Stream, admin: Admin) -> None:
    """By the time that a busy machine gets to it, a new message may be too old itself: so one is sent each second."""
    old = stream.send("old", 20)
    time.sleep(3)
    app, seen = seen_by(stream, skip_older_than="3s")

    async def scenario() -> None:
        async with running(app):
            async with asyncio.timeout(60):
                while not seen:
                    await asyncio.to_thread(stream.send, "young", 1)
                    await asyncio.sleep(1)
            await until(lambda: app.snapshot().groups[0].skipped >= len(old))

    asyncio.run(scenario())
    assert not old & set(seen)
    assert 0 == lag(admin, f"new-on-{stream.topic}")
