"""mqadmin shows our member of a group as it does a Java one: the same commands, the same fields."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping

import pytest

from framework import Producer
from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.wire.bodies.progress import ClientOffsets
from framework.wire.codes import RequestCode
from framework.wire.fields import command_for
from framework.wire.requests.inbound import ClientStatusRequest
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.live import Live, NewTopic, clients, fill_each
from tests.interop.mqadmin import Admin
from tests.patience import wait_until

pytestmark = pytest.mark.interop

DIRECTLY = re.compile(
    r"ConsumeMessageDirectlyResult \[order=(\w+), autoCommit=(\w+), consumeResult=(\w+), remark=(.*?), "
    r"spentTimeMills=(\d+)\]"
)


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
    assert "PullLoop.run(queue/pull.py:" in stacks
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

    wait_until(live.is_even, "all to be committed")


def test_status_from_the_client_and_a_cloned_group(
    begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    live = begin(queues=1)
    java.fill(cluster.name_server, live.topic, 12)
    live.application.received(12)
    queue = MessageQueue(live.topic, "broker-a", 0)

    def is_shown() -> bool:
        return asyncio.run(client_offsets(cluster, live)) == {live.client_id: {queue: 12}}

    wait_until(is_shown, "the member's own view of its progress")
    row = re.compile(rf"^{live.topic}\s+broker-a\s+0\s+12\s+12\s+0\s", re.MULTILINE)
    wait_until(lambda: bool(row.search(live.admin.run("consumerProgress", "-g", live.group))), "the commit")
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

    wait_until(is_tracked, "the broker to know that it was consumed")
    assert "k1" in live.admin.run("queryMsgByKey", "-t", live.topic, "-k", "k1")


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
