"""Where a group begins on a real cluster that has never seen it, and what it may leave out of what waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, consumer
from framework.errors import ConfigurationError
from tests.interop.cluster import Addresses
from tests.interop.inside import application, running
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin, AdminError, changed
from tests.interop.places import Place
from tests.interop.test_consuming import lag
from tests.patience import soon, until

pytestmark = pytest.mark.interop

BROKER = "broker-a"
QUEUES = 2
Lines = list[MutableMapping[str, Any]]


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
def young(place: Place, java: JavaPeer) -> Stream:
    """On a real cluster, and in the box."""
    topic = place.new_topic()
    words = ("-c", "DefaultCluster", "-t", topic, "-r", str(QUEUES), "-w", str(QUEUES))
    Admin(java, place.name_server).run("updateTopic", *words)
    return Stream(java, place.name_server, topic)


@pytest.fixture
def stream(java: JavaPeer, cluster: Addresses, new_topic: Callable[..., str]) -> Stream:
    return Stream(java, cluster.name_server, new_topic(queues=QUEUES))


def seen_by(stream: Stream, group: str, **settings: Any) -> tuple[App, list[bytes]]:
    """An application whose group has such settings, and the bodies that its handler was given."""
    seen: list[bytes] = []

    @consumer(stream.topic, group)
    async def note(message: Message) -> None:
        seen.append(message.body)

    return application(stream.name_server, note, of_group=settings), seen


def test_a_java_consumer_as_shipped_gets_the_first_messages_of_a_young_topic(young: Stream, java: JavaPeer) -> None:
    """Its default is the last offset; it gets them since the broker answers 0, which most rely on without knowing."""
    sent = young.send("first")
    member = java.consume(young.name_server, f"java-on-{young.topic}", young.topic, as_shipped=True)
    received = {message.body for message in member.received(len(sent))}
    member.leave()

    assert sent == received


def test_a_new_group_begins_where_its_settings_say(young: Stream) -> None:
    """Brokers answer 0 for a group that they do not know in a topic so young; that is no stored offset."""
    stream = young
    old = stream.send("old")
    time.sleep(1.5)  # an instant between two messages
    between = datetime.fromtimestamp(time.time() - 0.7, UTC).isoformat()
    later = stream.send("later")
    groups = {start: seen_by(stream, f"{name}-on-{stream.topic}", start=start)
              for name, start in (("first", "first"), ("last", "last"), ("time", between))}  # fmt: skip

    async def scenario(lines: Lines) -> None:
        async with running(*(app for app, _ in groups.values())):
            # Of each group the topic's queues, and that of its retries.
            await until(
                lambda: sum(line["event"] == "queue positioned" for line in lines) == len(groups) * (QUEUES + 1)
            )
            new = await asyncio.to_thread(stream.send, "new")
            expected = {"first": old | later | new, "last": new, between: later | new}
            await until(lambda: all(expected[start] <= set(seen) for start, (_, seen) in groups.items()))
            await until(lambda: all(app.idle_ms() > 200 for app, _ in groups.values()))
            assert {start: sorted(each) for start, each in expected.items()} == {
                start: sorted(seen) for start, (_, seen) in groups.items()
            }, "each once, and nothing else"

    with capture_logs() as lines:
        asyncio.run(scenario(lines))


def test_what_is_further_behind_than_the_rule_says_is_settled_unhandled(stream: Stream, admin: Admin) -> None:
    stream.send("waiting", 20)
    app, seen = seen_by(stream, f"new-on-{stream.topic}", skip_backlog_over=4)

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
    time.sleep(5)  # a broker tells its time in whole seconds, and what may be young is not skipped
    app, seen = seen_by(stream, f"new-on-{stream.topic}", skip_older_than="3s")

    async def scenario() -> None:
        async with running(app):
            for _ in range(60):
                if seen:
                    break
                await asyncio.to_thread(stream.send, "young", 1)
                await asyncio.sleep(1)
            await until(lambda: app.snapshot().groups[0].skipped >= len(old))

    asyncio.run(scenario())
    assert not old & set(seen)
    assert 0 == lag(admin, f"new-on-{stream.topic}")


@pytest.mark.xdist_group("lone_cluster")
def test_a_condition_is_put_to_the_broker_before_its_group_joins(
    stream: Stream, admin: Admin, cluster: Addresses
) -> None:
    """As Java's client does at its start."""
    group = f"wants-{stream.topic}"

    @consumer(stream.topic, group, sql="price > 10")
    async def note(message: Message) -> None: ...

    stream.send("before")
    stock = changed(admin, cluster, "enablePropertyFilter", "false", "true")
    with stock, pytest.raises(ConfigurationError) as refused:
        asyncio.run(soon(application(stream.name_server, note).run(), "its end"))
    assert f"group {group}, topic {stream.topic}, sql='price > 10': broker {BROKER} refuses it" in str(refused.value)
    assert "does not support consumer to filter message by SQL92" in str(refused.value)
    assert "enablePropertyFilter=true" in str(refused.value)
    with pytest.raises(AdminError, match="No topic route info"):
        admin.run("consumerConnection", "-g", group)
