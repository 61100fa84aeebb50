"""mqadmin shows and moves our member of a group as it does a Java one: the same commands, the same fields."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from framework import App, Message, Producer, consumer
from framework.client.brokers import Brokers
from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.core import limits
from framework.declare import Consumer
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.settings.schema import AppSettings
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.bodies.progress import ClientOffsets
from framework.wire.codes import RequestCode
from framework.wire.fields import command_for
from framework.wire.requests.group import HeartbeatAnswer
from framework.wire.requests.inbound import ClientStatusRequest
from tests.interop.application import Application
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery, wait_until

pytestmark = pytest.mark.interop

NewTopic = Callable[..., str]
# A broker holds a long poll for 15 s, and looks for a reset only when it answers one.
ONE_LONG_POLL_S = 40
DIRECTLY = re.compile(
    r"ConsumeMessageDirectlyResult \[order=(\w+), autoCommit=(\w+), consumeResult=(\w+), remark=(.*?), "
    r"spentTimeMills=(\d+)\]"
)


@dataclass
class Live:
    """A running application, as administrators know it."""

    application: Application
    admin: Admin
    topic: str
    group: str

    @property
    def client_id(self) -> str:
        found = clients(self.admin, self.group)
        assert 1 == len(found), found
        return found[0]

    def shown(self, *words: str) -> str:
        return self.admin.run("consumerStatus", "-g", self.group, "-i", self.client_id, *words)

    def is_even(self) -> bool:
        """All of four queues with something in each is committed; a group without any offset shows no rows at all."""
        progress = self.admin.run("consumerProgress", "-g", self.group)
        rows = re.findall(rf"^{self.topic}\s+broker-a\s+\d\s+([1-9]\d*)\s+\1\s+0\s", progress, re.MULTILINE)
        return len(rows) == 4 and "Consume Diff Total: 0" in progress


def fill_each(java: JavaPeer, cluster: Addresses, topic: str) -> None:
    """Ten messages in each of four queues."""
    for number in range(4):
        java.send(cluster.name_server, topic, [Outgoing(body=b"x")] * 10, queue=("broker-a", number))


def clients(admin: Admin, group: str) -> list[str]:
    lines = admin.run("consumerConnection", "-g", group).splitlines()
    return [line.split()[0] for line in lines[1 : lines.index("")]]


@pytest.fixture
def begin(
    admin: Admin, cluster: Addresses, new_topic: NewTopic, nursery: Nursery, tmp_path: Path
) -> Callable[..., Live]:
    """Starts a member of a new group on a new topic."""

    def begin(*, queues: int = 4, **options: object) -> Live:
        topic = new_topic(queues=queues)
        group = f"members-of-{topic}"
        application = Application(
            nursery,
            tmp_path,
            cluster.name_server,
            topic=topic,
            group=group,
            **options,  # type: ignore[arg-type]
        )
        return Live(application, admin, topic, group)

    return begin


def sections(text: str) -> dict[str, list[str]]:
    """What consumerStatus -i prints: the lines below each `#title#`, without empty ones."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.fullmatch(r"#[^#]+#", line):
            current = found[line] = []
        elif line.strip():
            current.append(line)
    return found


def fields_of(line: str) -> list[str]:
    return re.findall(r"(\w+)=", line)


def test_running_info_reads_as_a_java_members(begin: Callable[..., Live], java: JavaPeer, cluster: Addresses) -> None:
    live = begin()
    java.fill(cluster.name_server, live.topic, 40)
    live.application.received(40)
    java_group = f"java-{live.group}"
    member = java.consume(cluster.name_server, java_group, live.topic)
    member.received(40)
    theirs = sections(
        live.admin.run("consumerStatus", "-g", java_group, "-i", clients(live.admin, java_group)[0], "-s")
    )
    member.leave()

    ours = sections(live.shown("-s"))
    assert list(theirs) == list(ours)
    for title in ("#Consumer Offset#", "#Consumer MQ Detail#", "#Consumer RT&TPS#"):
        # Of the topic's own queues: either member may not have met its retry topic yet.
        their_lines, our_lines = (
            [line for line in info[title] if line.startswith(live.topic)] for info in (theirs, ours)
        )
        assert theirs[title][0] == ours[title][0]
        assert list(map(fields_of, their_lines)) == list(map(fields_of, our_lines)), title
    assert len(theirs["#Consumer Subscription#"]) == len(ours["#Consumer Subscription#"]) == 2
    properties = dict(re.split(r"\s*: ", line, maxsplit=1) for line in ours["#Consumer Properties#"])
    their_properties = dict(re.split(r"\s*: ", line, maxsplit=1) for line in theirs["#Consumer Properties#"])
    java_only = {name for name in their_properties if name.startswith("PROP_")} - set(properties)
    assert set() == java_only
    assert f"{cluster.name_server};" == properties["PROP_NAMESERVER_ADDR"]
    assert ("CONSUME_PASSIVELY", "false", "V5_3_2", "20") == tuple(
        properties[f"PROP_{name}"]
        for name in ("CONSUME_TYPE", "CONSUMEORDERLY", "CLIENT_VERSION", "THREADPOOL_CORE_SIZE")
    )
    assert abs(time.time() * 1000 - int(properties["PROP_CONSUMER_START_TIMESTAMP"])) < 120_000
    same = {"consumeFromWhere", "messageModel", "pullBatchSize", "pullThresholdForQueue"}
    assert {name: their_properties[name] for name in same} == {name: properties[name] for name in same}
    assert 40 == sum(int(line.split()[-1]) for line in ours["#Consumer Offset#"] if live.topic in line.split()[0])
    (rates,) = (line.split() for line in ours["#Consumer RT&TPS#"] if line.startswith(live.topic))
    assert float(rates[2]) > 0, "pulled within the last minute"
    assert float(rates[4]) > 0, "handled within the last minute"
    assert "0" == rates[6]
    stacks = "\n".join(ours["#Consumer jstack#"])
    assert re.search(r"^pull \S+\s+TASK: \d+ STATE: WAITING$", stacks, re.MULTILINE)
    assert "PullLoop.run(services/queue/pull.py:" in stacks
    assert re.search(r"^thread MainThread\s+TID: \d+ STATE: RUNNABLE$", stacks, re.MULTILINE)


def test_the_group_is_judged_sound(begin: Callable[..., Live], java: JavaPeer, cluster: Addresses) -> None:
    live = begin()
    java.fill(cluster.name_server, live.topic, 8)
    live.application.received(8)

    judged = live.admin.run("consumerStatus", "-g", live.group)
    assert re.search(rf"^1\s+{re.escape(live.client_id)}\s+V5_3_2\s+\d+/", judged, re.MULTILINE)
    assert "Same subscription in the same group of consumer" in judged
    assert "Rebalance OK" in judged


def test_connection_and_progress_are_shown(begin: Callable[..., Live], java: JavaPeer, cluster: Addresses) -> None:
    live = begin()
    fill_each(java, cluster, live.topic)
    live.application.received(40)

    connection = live.admin.run("consumerConnection", "-g", live.group)
    assert re.search(rf"^{re.escape(live.client_id)}\s+127\.0\.0\.1:\d+\s+PYTHON\s+V5_3_2$", connection, re.MULTILINE)
    for line in (
        rf"^%RETRY%{live.group}\s+\*$", rf"^{live.topic}\s+\*$", "^ConsumeType: CONSUME_PASSIVELY$",
        "^MessageModel: CLUSTERING$", "^ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET$",
    ):  # fmt: skip
        assert re.search(line, connection, re.MULTILINE), line

    wait_until(live.is_even, "all to be committed", 20)


def test_status_from_the_client_and_a_cloned_group(
    begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    live = begin(queues=1)
    java.fill(cluster.name_server, live.topic, 12)
    live.application.received(12)
    queue = MessageQueue(live.topic, "broker-a", 0)

    def is_shown() -> bool:
        return asyncio.run(client_offsets(cluster, live)) == {live.client_id: {queue: 12}}

    wait_until(is_shown, "the member's own view of its progress", 10)
    row = re.compile(rf"^{live.topic}\s+broker-a\s+0\s+12\s+12\s+0\s", re.MULTILINE)
    wait_until(lambda: bool(row.search(live.admin.run("consumerProgress", "-g", live.group))), "the commit", 20)
    group = f"clone-{live.group}"
    live.admin.run("updateSubGroup", "-c", "DefaultCluster", "-g", group)
    cloned = live.admin.run("cloneGroupOffset", "-s", live.group, "-d", group, "-t", live.topic, "-o", "true")
    assert "clone group offset success" in cloned
    java.send(cluster.name_server, live.topic, [Outgoing(body=b"after")])
    clone = java.consume(cluster.name_server, group, live.topic)
    assert [b"after"] == [each.body for each in clone.received(1)], "it begins where the other one was"
    clone.leave()


async def client_offsets(cluster: Addresses, live: Live) -> Mapping[str, Mapping[MessageQueue, int]]:
    """What mqadmin getConsumerStatus would ask for; the command is no longer among those of 5.5."""
    client = Cluster(real_world(), ClusterOptions(name_servers=(cluster.name_server,)))
    try:
        request = command_for(
            ClientStatusRequest(topic=live.topic, group=live.group),
            code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        )
        answer = await client.pool.request(cluster.brokers["broker-a"], request, timeout_ms=10_000)
        assert 0 == answer.code, answer.remark
        return ClientOffsets.decode(answer.body).clients
    finally:
        await client.close()


def test_offsets_are_moved_back_on_a_live_member(
    begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    live = begin()
    java.fill(cluster.name_server, live.topic, 40)
    live.application.received(40)

    moved = live.admin.run("resetOffsetByTime", "-g", live.group, "-t", live.topic, "-s", "1")
    assert re.search(r"^#brokerName\s+#queueId\s+#offset\s*$", moved, re.MULTILINE)
    assert 4 == len(re.findall(r"^broker-a\s+\d\s+0\s*$", moved, re.MULTILINE))
    received = live.application.received(80, timeout_s=ONE_LONG_POLL_S)
    assert 40 == len({(each.queue, each.offset) for each in received[40:]})
    assert 80 == len(received)


@pytest.mark.parametrize("command", ["skipAccumulatedMessage", "resetOffsetByTime"])
def test_offsets_are_moved_forward_on_a_live_member(
    command: str, begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    """What was pulled already is dropped with the rest; what comes afterwards is handled."""
    live = begin(queues=1, pause_s=0.5, concurrency=1, cache_count=50)
    java.fill(cluster.name_server, live.topic, 400)
    live.application.received(2)

    when = ("-s", "now") if command == "resetOffsetByTime" else ()
    moved = live.admin.run(command, "-g", live.group, "-t", live.topic, *when)
    assert re.search(r"^broker-a\s+0\s+400\s*$", moved, re.MULTILINE)
    java.send(cluster.name_server, live.topic, [Outgoing(body=b"after")])

    def has_gone_on() -> bool:
        return any(each.body == b"after" for each in live.application.received(2))

    wait_until(has_gone_on, "the message behind the skipped ones", ONE_LONG_POLL_S)
    assert len(live.application.received(2)) < 200


@contextmanager
def resetting_clients(admin: Admin, cluster: Addresses) -> Iterator[None]:
    """The broker asks clients to reset themselves, as those of 4.x and 5.0 do."""
    words = ("-b", cluster.brokers["broker-a"], "-k", "useServerSideResetOffset", "-v")
    admin.run("updateBrokerConfig", *words, "false")
    try:
        yield
    finally:
        admin.run("updateBrokerConfig", *words, "true")


def test_a_reset_that_the_client_must_do_is_done_at_once(
    begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    live = begin()
    fill_each(java, cluster, live.topic)
    live.application.received(40)
    # Such a broker resets nothing of a group that has no offset in one of the queues.
    wait_until(live.is_even, "all offsets to be committed", 20)

    with resetting_clients(live.admin, cluster):
        live.admin.run("resetOffsetByTime", "-g", live.group, "-t", live.topic, "-s", "1")
        received = live.application.received(80, timeout_s=5)  # less than a long poll: ours is cut short
        assert 40 == len({(each.queue, each.offset) for each in received[40:]})
        fill_each(java, cluster, live.topic)
        assert 120 == len(live.application.received(120))
    ended = live.application.stop()
    assert 0 == ended.code
    assert live.is_even()


@pytest.mark.parametrize("who", [pytest.param("broker", marks=pytest.mark.slow), "client"])
def test_a_queue_that_consumed_nothing_is_reset_with_the_others(
    who: str, begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    """Nothing was ever in three of the four queues: the reset names them all, and they go on from there."""
    live = begin()
    java.send(cluster.name_server, live.topic, [Outgoing(body=b"x")] * 10, queue=("broker-a", 2))
    live.application.received(10)

    def is_stored() -> bool:
        progress = live.admin.run("consumerProgress", "-g", live.group)
        return 3 == len(re.findall(rf"^{live.topic}\s+broker-a\s+\d\s+0\s+0\s+0\s", progress, re.MULTILINE))

    wait_until(is_stored, "offsets of the queues without messages", 20)
    with resetting_clients(live.admin, cluster) if who == "client" else nullcontext():
        moved = live.admin.run("resetOffsetByTime", "-g", live.group, "-t", live.topic, "-s", "1")
        assert 4 == len(re.findall(r"^broker-a\s+\d\s+0\s*$", moved, re.MULTILINE)), moved
        again = live.application.received(20, timeout_s=ONE_LONG_POLL_S)
    fill_each(java, cluster, live.topic)
    received = live.application.received(60, timeout_s=ONE_LONG_POLL_S)
    assert sorted([*range(10)] * 2) == sorted(each.offset for each in again)
    fresh = Counter(each.queue for each in received[20:])
    assert dict.fromkeys(range(4), 10) == fresh


@pytest.mark.parametrize(("failures", "result"), [(0, "CR_SUCCESS"), (1, "CR_THROW_EXCEPTION")])
def test_a_message_is_consumed_directly(
    failures: int, result: str, begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    live = begin(failures=failures)
    (sent,) = java.send(cluster.name_server, live.topic, [Outgoing(body=b"paid", keys="k1")])
    live.application.received(1)

    printed = live.admin.run(
        "queryMsgById", "-t", live.topic, "-i", sent.offset_message_id or "", "-g", live.group, "-d", live.client_id
    )
    found = DIRECTLY.search(printed)
    assert found, printed
    assert ("false", "true", result) == found.group(1, 2, 3)
    assert (found[4] == "null") == (result == "CR_SUCCESS"), found[4]
    first, again = [each for each in live.application.received(2) if each.attempt == 1]
    assert first == again, "it was handed over as the first time: the same place, attempt, ids and properties"


def test_a_message_shows_who_consumed_it(begin: Callable[..., Live], java: JavaPeer, cluster: Addresses) -> None:
    live = begin()
    (sent,) = java.send(cluster.name_server, live.topic, [Outgoing(body=b"paid", keys="k1")])
    live.application.received(1)

    def is_tracked() -> bool:
        printed = live.admin.run("queryMsgById", "-t", live.topic, "-i", sent.offset_message_id or "")
        return f"MessageTrack [consumerGroup={live.group}, trackType=CONSUMED, exceptionDesc=null]" in printed

    wait_until(is_tracked, "the broker to know that it was consumed", 20)
    assert "k1" in live.admin.run("queryMsgByKey", "-t", live.topic, "-k", "k1")


def test_a_trace_shows_who_sent_and_who_consumed(admin: Admin, cluster: Addresses, new_topic: NewTopic) -> None:
    """Our records, stored by a real broker, and read by RocketMQ's own decoder."""
    topic, traces, seen = new_topic(), new_topic(queues=1), asyncio.Event()
    group = f"readers-of-{topic}"

    @consumer(topic=topic, group=group)
    async def read(message: Message) -> None:
        seen.set()

    async def story() -> str:
        names = [cluster.name_server]
        group_settings = {"start": "first", "trace": True, "trace_topic": traces}
        app = App(
            AppSettings.model_validate({"cluster": {"name_servers": names}, "consumers": {group: group_settings}}),
            [read],
            plugins=PluginHost(discover=lambda: ()),
        )
        async with Producer(name_servers=names, group="makers", trace=True, trace_topic=traces) as producer:
            sent = await producer.send(topic, b"paid", keys="k1")
        running = asyncio.get_running_loop().create_task(app.run())
        await seen.wait()
        await app.stop()
        await running
        return sent.message_id

    message_id = asyncio.run(story())

    def shown() -> str:
        return admin.run("queryMsgTraceById", "-i", message_id, "-t", traces)

    wait_until(lambda: "Sub " in shown(), "the broker to have indexed the traces", 20)
    table = shown()
    assert re.search(r"^Pub +makers +\S+ +[\d-]+ [\d:]+ +\d+ms +success", table, re.MULTILINE), table
    assert re.search(rf"^Sub +{group} +\S+ +[\d-]+ [\d:]+ +\d+ms +success", table, re.MULTILINE), table
    assert len(admin.run("queryMsgByKey", "-t", traces, "-k", "k1").splitlines()) > 1, "found by the sender's keys, too"


def test_short_heartbeats_keep_a_member_and_a_change_takes_effect(
    admin: Admin, cluster: Addresses, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    group = f"terse-{topic}"
    seen: list[bytes] = []
    beats: list[tuple[bool, bool]] = []
    """Whether each was short, and whether the broker said that something had changed."""
    ask = Brokers.heartbeat

    async def noted(self: Brokers, address: str, heartbeat: Heartbeat) -> HeartbeatAnswer:
        answer = await ask(self, address, heartbeat)
        beats.append((heartbeat.is_without_subscriptions, answer.subscription_changed))
        return answer

    monkeypatch.setattr(Brokers, "heartbeat", noted)
    monkeypatch.setattr(limits, "HEARTBEAT_MS", 200)

    def of_tag(tag: str) -> Consumer[..., Any]:
        @consumer(topic=topic, group=group, tags=tag)
        async def read(message: Message) -> None:
            seen.append(message.body)

        return read

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - what is waited for is plain state
                await asyncio.sleep(0.02)

    async def three_short_ones() -> None:
        beats.clear()
        await until(lambda: [True] * 3 == [is_short for is_short, _ in beats[-3:]])
        assert not any(is_changed for is_short, is_changed in beats[-3:] if is_short)

    async def shown() -> str:
        return await asyncio.to_thread(admin.run, "consumerConnection", "-g", group)

    async def story() -> None:
        names = [cluster.name_server]
        settings = {"cluster": {"name_servers": names, "heartbeat_v2": True}, "consumers": {group: {"start": "first"}}}
        app = App(AppSettings.model_validate(settings), [of_tag("a")], plugins=PluginHost(discover=lambda: ()))
        running = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: app.is_ready)
        await three_short_ones()
        connections = await shown()
        assert app.member in connections
        assert re.search(rf"^{topic}\s+a$", connections, re.MULTILINE), connections
        async with Producer(name_servers=names) as producer:
            await producer.send(topic, b"for a", tags="a")
            await producer.send(topic, b"for b", tags="b")
            await until(lambda: seen == [b"for a"])
            app.subscribe(of_tag("b"))
            await three_short_ones()
            await producer.send(topic, b"again for a", tags="a")
            await producer.send(topic, b"again for b", tags="b")
            await until(lambda: b"again for b" in seen)
        connections = await shown()
        assert app.member in connections
        assert re.search(rf"^{topic}\s+b$", connections, re.MULTILINE), connections
        assert b"again for a" not in seen
        await app.stop()
        await running

    asyncio.run(story())


def test_a_producer_is_shown_while_it_is_there(admin: Admin, cluster: Addresses, new_topic: NewTopic) -> None:
    topic = new_topic()
    group = f"producers-of-{topic}"

    async def story() -> str:
        async with Producer(name_servers=cluster.name_server, group=group) as producer:
            await producer.send(topic, b"x")
            shown = await asyncio.to_thread(admin.run, "producerConnection", "-g", group, "-t", topic)
        await asyncio.to_thread(admin_fails, admin, group, topic)
        return shown

    assert re.search(
        r"^0001\s+\S+@\d+#\w+\s+127\.0\.0\.1:\d+\s+PYTHON\s+V5_3_2\s*$", asyncio.run(story()), re.MULTILINE
    )


def admin_fails(admin: Admin, group: str, topic: str) -> None:
    with pytest.raises(Exception, match="not exist"):
        admin.run("producerConnection", "-g", group, "-t", topic)
