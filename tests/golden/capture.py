"""Captures the golden bytes anew: `python -m tests.golden.capture [SET ...]`.

    json      the Java client and a stock cluster, JSON headers
    binary    the same conversation with both sides told to use binary headers
    classic   a Java client that is told to send with 10 instead of 310
    ipv6      messages born and stored at IPv6 addresses
    long      a topic of 200 characters
    route     route JSON in the flavour for old clients and in the one for new ones
    dialogue  transactions and a check, a request and its reply, a message that is recalled
    pop       members that a broker tells to pop: pops, acknowledgements, a retry, what came back

A broker advertises the address it is told to, so it advertises 127.0.0.2, where the recorder stands at the same port;
the broker itself listens on 127.0.0.1. Requests for what no Java client asks are written by hand; their answers
count.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden import captures
from tests.golden.raw_client import RawClient
from tests.golden.recorder import Recorder
from tests.interop.cluster import AUTO_CREATE_TOPIC, Cluster, Shape
from tests.interop.jars import VERSION
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin, AdminError
from tests.interop.probe import GET_CLUSTER, GET_ROUTE
from tests.interop.processes import Nursery
from tests.patience import wait_until

ADVERTISED = "127.0.0.2"
BROKER = "broker-a"
BINARY = {"rocketmq.serialize.type": "ROCKETMQ"}
# Retries after one second, so that a capture takes one minute and not ten.
QUICK_RETRIES = {"messageDelayLevel": " ".join(["1s"] * 18)}
SOON_ASKED = {"transactionTimeOut": "1000", "transactionCheckInterval": "2000"}
RECALLS = {"recallMessageEnable": "true"}
TEXT = (
    "A message long enough that compressing it is worth the while, in more than one alphabet: für, 消息, ещё. " * 8
).encode()


@dataclass(kw_only=True)
class Stage:
    """A running cluster with the recorder before it, and a Java client that sees only the recorder."""

    recorder: Recorder
    cluster: Cluster
    nursery: Nursery
    name_server: str
    properties: Mapping[str, str]
    sent: list[dict[str, Any]] = field(default_factory=list)

    def java(self, **properties: str) -> JavaPeer:
        return JavaPeer(self.nursery, properties={**self.properties, **properties})

    def send(self, java: JavaPeer, topic: str, messages: Sequence[Outgoing], **how: Any) -> None:
        """Send, and note what was sent and what the producer was told."""
        results = java.send(self.name_server, topic, messages, **how)
        for place, message in enumerate(messages):
            result = results[0] if how.get("how") == "batch" else results[place]
            told = {
                "message_id": result.message_id.split(",")[place if "," in result.message_id else 0],
                "offset_message_id": (result.offset_message_id or "").split(",")[
                    place if "," in result.message_id else 0
                ],
                "queue": result.queue,
                "offset": result.offset + (place if how.get("how") == "batch" else 0),
            }
            self.sent.append({"topic": topic, **message.to_json(), **told})


def converse(stage: Stage) -> None:
    """Everything that a Java producer, two kinds of Java consumers and mqadmin say to a cluster, and are told."""
    java = stage.java()
    admin = Admin(java, stage.name_server)
    for topic in ("golden", "golden-retried", "golden-ordered"):
        admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "2", "-w", "2")
    plain = Outgoing(body=b"plain", tags="red", keys="k1 k2", properties={"colour": "red", "größe": "ä€😀"})
    stage.send(java, "golden", [plain, Outgoing(body="тело 消息".encode())])
    stage.send(java, "golden", [Outgoing(body=b"async", level=1)], how="async")
    stage.send(
        java, "golden", [Outgoing(body=b"batch-%d" % i, tags="blue", keys=f"b{i}") for i in range(3)], how="batch"
    )
    for codec in ("zlib", "lz4", "zstd"):
        stage.send(java, "golden", [Outgoing(body=TEXT, tags=codec)], compress=codec, over=100)
    now_ms = int(time.time() * 1000)
    java.offsets(stage.name_server, "golden", broker=BROKER, queue=0, time_ms=now_ms - 3_600_000)

    first = java.consume(stage.name_server, "golden-readers", "golden")
    first.received(len(stage.sent))
    second = java.consume(stage.name_server, "golden-readers", "golden")  # The first is told that the group changed.
    filtered = java.consume(stage.name_server, "golden-selective", "golden", sql="colour = 'red' OR TAGS = 'blue'")
    filtered.received(4)
    for words in (
        ("clusterList",),
        ("topicRoute", "-t", "golden"),
        ("topicStatus", "-t", "golden"),
        ("consumerConnection", "-g", "golden-readers"),
        ("consumerProgress", "-g", "golden-readers"),
        ("consumerStatus", "-g", "golden-readers"),
        ("producerConnection", "-g", "interop-producer", "-t", "golden"),
        ("resetOffsetByTime", "-g", "golden-readers", "-t", "golden", "-s", "-1"),
    ):
        admin.run(*words)
    client = next(line for line in admin.run("consumerStatus", "-g", "golden-readers").splitlines() if "@" in line)
    admin.run("consumerStatus", "-g", "golden-readers", "-i", client.split()[1])

    stage.send(java, "golden-retried", [Outgoing(body=b"again", keys="again")])
    failing = java.consume(stage.name_server, "golden-failing", "golden-retried", failures=1)
    assert 2 == len(failing.received(2)), "the retry did not come"
    stage.send(java, "golden-ordered", [Outgoing(body=b"in order %d" % i) for i in range(2)], queue=(BROKER, 0))
    ordered = java.consume(stage.name_server, "golden-ordered-readers", "golden-ordered", orderly=True)
    ordered.received(2)
    for member in (second, first, filtered, failing, ordered):
        member.leave()
    java.close()


def converse_classic(stage: Stage) -> None:
    """The sending half, as clients before 310 did it."""
    java = stage.java(**{"org.apache.rocketmq.client.sendSmartMsg": "false"})
    Admin(java, stage.name_server).run("updateTopic", "-c", "DefaultCluster", "-t", "classic", "-r", "1", "-w", "1")
    stage.send(java, "classic", [Outgoing(body=b"classic", tags="red", keys="k1", properties={"colour": "red"})])
    stage.send(java, "classic", [Outgoing(body=b"batch-%d" % i) for i in range(2)], how="batch")
    member = java.consume(stage.name_server, "classic-readers", "classic")
    member.received(3)
    member.leave()
    java.close()


def converse_ipv6(stage: Stage) -> None:
    """Java sends to an IPv6 address itself; what it stored is pulled through the recorder."""
    java = stage.java()
    Admin(java, stage.name_server).run("updateTopic", "-c", "DefaultCluster", "-t", "six", "-r", "1", "-w", "1")
    stage.send(java, "six", [Outgoing(body=b"born far away", tags="red", keys="k1")])
    stage.send(java, "six", [Outgoing(body=TEXT)], compress="zstd", over=100)
    port = int(stage.cluster.addresses.brokers[BROKER].rpartition(":")[2])
    with RawClient(stage.recorder.lead("broker", ("::1", port))) as client:
        client.pull("six", group="six-readers")
    java.close()


def converse_long(stage: Stage) -> None:
    """The broker makes such a topic itself, for what was popped and never acknowledged."""
    java = stage.java()
    admin = Admin(java, stage.name_server)
    topic, group = "t" * 102, "g" * 90
    retry_topic = f"%RETRY%{group}_{topic}"
    admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "1", "-w", "1")
    stage.send(java, topic, [Outgoing(body=b"popped", tags="red", keys="k1")])
    assert 1 == java.pop(stage.name_server, group, topic, broker=BROKER, count=1, invisible_ms=1000)

    def has_arrived() -> bool:
        try:
            return " 1 " in admin.run("topicStatus", "-t", retry_topic)
        except AdminError:
            return False

    wait_until(has_arrived, retry_topic, pause_s=0.5)
    with RawClient(stage.cluster.addresses.brokers[BROKER]) as client:
        client.pull(retry_topic, group="long-readers")
    java.close()


def converse_route(stage: Stage) -> None:
    """Old clients are answered with numbers for keys, unquoted; new ones, and who asks for it, with JSON."""
    with RawClient(stage.name_server) as client:
        client.ask(GET_ROUTE, topic=AUTO_CREATE_TOPIC)
        client.ask(GET_ROUTE, version=401, topic=AUTO_CREATE_TOPIC)
    with RawClient(stage.name_server) as client:
        client.ask(GET_CLUSTER)
        client.ask(GET_ROUTE, topic="nobody-made-this")


def converse_dialogue(stage: Stage) -> None:
    """What takes two. Nothing is noted as sent: what a half message's producer is told is no place in its topic."""
    java = stage.java()
    admin = Admin(java, stage.name_server)
    for topic in ("dialogue", "dialogue-asked"):
        admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "1", "-w", "1")
    words: dict[str, Any] = {"names": stage.name_server, "group": "golden-desk", "topic": "dialogue"}
    for local in ("COMMIT", "ROLLBACK", "UNKNOW"):
        java.call("transact", local=local, check="COMMIT", body=base64.b64encode(local.encode()).decode(), **words)
    member = java.consume(stage.name_server, "golden-listeners", "dialogue")
    assert 2 == len(member.received(2)), "one was committed, and one was asked about"
    java.call("reply", names=stage.name_server, group="golden-repliers", topic="dialogue-asked")
    body = base64.b64encode(b"tea?").decode()
    java.call("request", names=stage.name_server, topic="dialogue-asked", timeout=30_000, body=body)
    java.call("recall", names=stage.name_server, topic="dialogue", delay_ms=60_000)
    java.call("hush", group="golden-repliers")
    member.leave()
    java.close()


def converse_pop(stage: Stage) -> None:
    """Java's push consumer pops where an administrator says so; its listener fails each message once."""
    java = stage.java()
    admin = Admin(java, stage.name_server)
    admin.run("updateTopic", "-c", "DefaultCluster", "-t", "popped", "-r", "1", "-w", "1")
    admin.run("updateSubGroup", "-c", "DefaultCluster", "-g", "golden-poppers")
    admin.run("setConsumeMode", "-c", "DefaultCluster", "-t", "popped", "-g", "golden-poppers", "-m", "POP")
    java.send(
        stage.name_server, "popped", [Outgoing(body=b"popped %d" % i, tags="red", keys=f"p{i}") for i in range(3)]
    )
    member = java.consume(stage.name_server, "golden-poppers", "popped", divided_by_broker=True, failures=1)
    assert 6 == len(member.received(6, timeout_s=180)), "each twice"
    time.sleep(2)  # the last acknowledgements are on their way
    member.leave()
    java.close()


@dataclass(frozen=True, kw_only=True)
class Plan:
    conversation: Callable[[Stage], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


ADVERTISE = {"brokerIP1": ADVERTISED}
PLANS = {
    "json": Plan(conversation=converse, settings={**ADVERTISE, **QUICK_RETRIES}),
    "binary": Plan(conversation=converse, settings={**ADVERTISE, **QUICK_RETRIES}, properties=BINARY),
    "classic": Plan(conversation=converse_classic, settings=ADVERTISE),
    "ipv6": Plan(conversation=converse_ipv6, settings={"brokerIP1": "::1", "bindAddress": "::1"}),
    "long": Plan(conversation=converse_long, settings=ADVERTISE),
    "route": Plan(conversation=converse_route, settings=ADVERTISE),
    "pop": Plan(conversation=converse_pop, settings=ADVERTISE),
    "dialogue": Plan(conversation=converse_dialogue, settings={**ADVERTISE, **SOON_ASKED, **RECALLS}),
}


def capture(name: str) -> None:
    plan = PLANS[name]
    nursery = Nursery()
    recorder = Recorder()
    shape = Shape(settings=plan.settings, properties=plan.properties)
    try:
        with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), nursery, shape) as cluster:
            names = recorder.lead("name server", _place(cluster.name_server))
            if plan.settings["brokerIP1"] == ADVERTISED:
                port = int(cluster.addresses.brokers[BROKER].rpartition(":")[2])
                recorder.lead("broker", ("127.0.0.1", port), listen=(ADVERTISED, port))
            stage = Stage(
                recorder=recorder, cluster=cluster, nursery=nursery, name_server=names, properties=plan.properties
            )
            plan.conversation(stage)
    finally:
        recorder.close()
        nursery.close()
    made_by = f"RocketMQ {VERSION} through python -m tests.golden.capture {name}"
    captures.save(name, recorder.frames, stage.sent, made_by=made_by)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PLANS:
        capture(chosen)
