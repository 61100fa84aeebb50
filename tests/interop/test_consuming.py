"""Our application consumes what the Java producer sent, from a real cluster and from the broker in the box."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.interop.application import Application
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin, AdminError
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = pytest.mark.interop

# Compressible, so that it is compressed, and in more than one alphabet.
LONG_TEXT = ("Nachricht für 消息 ещё " * 400).encode()


def test_what_java_sent_is_handled_as_it_was_sent(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """Plain, in a batch, in each compression; tags, keys, properties, ids and places with it."""
    topic = place.new_topic()
    plain = Outgoing(body=b"plain", tags="red", keys="k1 k2", properties={"colour": "red", "größe": "ä😀"})
    sent = java.send(place.name_server, topic, [plain])
    batch = [Outgoing(body=b"batch-%d" % number, tags="blue", keys=f"b{number}") for number in range(5)]
    (in_batch,) = java.send(place.name_server, topic, batch, how="batch")
    for codec in ("zlib", "lz4", "zstd"):
        message = Outgoing(body=codec.encode() + LONG_TEXT, tags=codec)
        sent += java.send(place.name_server, topic, [message], compress=codec)

    application = Application(nursery, tmp_path, place.name_server, topic=topic, group=f"readers-of-{topic}")
    received = {message.message_id: message for message in application.received(9)}
    ended = application.stop()

    assert set(received) == {*(each.message_id for each in sent), *in_batch.message_id.split(",")}
    first = received[sent[0].message_id]
    assert (topic, b"plain", 1) == (first.topic, first.body, first.attempt)
    assert {"TAGS": "red", "KEYS": "k1 k2", "colour": "red", "größe": "ä😀"}.items() <= first.properties.items()
    for each in sent:
        handled = received[each.message_id]
        assert (each.broker, each.queue, each.offset) == (handled.broker, handled.queue, handled.offset)
        assert each.offset_message_id == handled.offset_message_id
    for each, codec in zip(sent[1:], ("zlib", "lz4", "zstd"), strict=True):
        assert codec.encode() + LONG_TEXT == received[each.message_id].body
    bodies = [received[message_id].body for message_id in in_batch.message_id.split(",")]
    assert [message.body for message in batch] == bodies
    assert (0, 9) == (ended.code, ended.events[-1]["handled"])


def test_tags_are_filtered(place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path) -> None:
    """`Aa` and `BB` have the same hash in Java: the broker lets both pass, and the second look is ours."""
    topic = place.new_topic()
    java.send(place.name_server, topic, [Outgoing(body=tag.encode(), tags=tag) for tag in ("Aa", "BB", "other", "Aa")])

    application = Application(
        nursery, tmp_path, place.name_server, topic=topic, group=f"readers-of-{topic}", tags="Aa || none"
    )
    received = application.received(2)
    ended = application.stop()

    assert [b"Aa", b"Aa"] == [message.body for message in received]
    assert 2 == ended.events[-1]["handled"]


def test_properties_are_filtered_by_sql(place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path) -> None:
    """The condition goes out with heartbeats, and brokers check it; a retried message is not filtered again."""
    topic = place.new_topic()
    regions = [("eu", 5), ("eu", 11), ("us", 12), ("eu", 13)]
    messages = [
        Outgoing(body=f"{region}{price}".encode(), properties={"region": region, "price": str(price)})
        for region, price in regions
    ]
    java.send(place.name_server, topic, messages)

    application = Application(
        nursery, tmp_path, place.name_server, topic=topic, group=f"readers-of-{topic}", failures=1,
        environment={"RECORD_SQL": "price > 10 AND region = 'eu'"},
    )  # fmt: skip
    received = application.received(4)
    ended = application.stop()

    assert [b"eu11", b"eu11", b"eu13", b"eu13"] == sorted(message.body for message in received)
    assert 2 == ended.events[-1]["handled"]


def test_what_fails_comes_again_with_the_same_id(
    place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """The broker makes the copy and gives it back after level 3: ten seconds on stock settings."""
    topic = place.new_topic()
    (sent,) = java.send(place.name_server, topic, [Outgoing(body=b"again", keys="k1")])

    application = Application(
        nursery, tmp_path, place.name_server, topic=topic, group=f"readers-of-{topic}", failures=1
    )
    first, second = application.received(2)
    ended = application.stop()

    assert (1, 2) == (first.attempt, second.attempt)
    assert (topic, topic) == (first.topic, second.topic)
    assert {sent.message_id} == {first.message_id, second.message_id}
    assert 1 == ended.events[-1]["retried"]


def test_offsets_are_kept_over_a_restart(place: Place, java: JavaPeer, nursery: Nursery, tmp_path: Path) -> None:
    topic = place.new_topic()
    group = f"readers-of-{topic}"
    for name in ("before", "after"):
        folder = tmp_path / name
        folder.mkdir()
        java.send(place.name_server, topic, [Outgoing(body=b"%d %d" % (len(name), number)) for number in range(6)])
        application = Application(nursery, folder, place.name_server, topic=topic, group=group)
        received = application.received(6)
        ended = application.stop()

        assert {b"%d %d" % (len(name), number) for number in range(6)} == {message.body for message in received}
        assert 6 == ended.events[-1]["handled"]


def test_a_topic_of_200_characters_is_consumed(
    cluster: Addresses, java: JavaPeer, admin: Admin, nursery: Nursery, tmp_path: Path, numbers: Callable[[], str]
) -> None:
    """A stock broker refuses names above 127 characters in every send. The one way to a longer topic is pop: what was
    popped and not acknowledged comes to %RETRY%group_topic. Such a record has two bytes for its topic's length.
    """
    topic = "t" * 90 + numbers().rjust(12, "t")
    group = "g" * 90
    retry_topic = f"%RETRY%{group}_{topic}"
    admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "1", "-w", "1")
    (sent,) = java.send(cluster.name_server, topic, [Outgoing(body=b"popped", tags="red")])
    assert 1 == java.pop(cluster.name_server, group, topic, broker=sent.broker, count=1, invisible_ms=1000)
    assert 200 == len(retry_topic)

    def has_arrived() -> bool:
        try:
            return re.search(r"\s1\s", admin.run("topicStatus", "-t", retry_topic)) is not None
        except AdminError:  # It is not made before the message is.
            return False

    wait_until(has_arrived, "the message in its long topic", pause_s=0.5)
    application = Application(nursery, tmp_path, cluster.name_server, topic=retry_topic, group=f"readers-{topic[-12:]}")
    (message,) = application.received(1)
    application.stop()

    assert (b"popped", sent.message_id) == (message.body, message.message_id)
    assert "red" == message.properties["TAGS"]


def test_mqadmin_shows_our_group_and_its_falling_lag(
    cluster: Addresses, java: JavaPeer, admin: Admin, nursery: Nursery, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(queues=2)
    group = f"readers-of-{topic}"
    java.fill(cluster.name_server, topic, 300, batch=10)
    application = Application(
        nursery, tmp_path, cluster.name_server, topic=topic, group=group, pause_s=0.05, concurrency=2
    )
    application.received(1)
    wait_until(lambda: lag(admin, group) > 0, "the group's first commit", pause_s=0.2)

    connection = admin.run("consumerConnection", "-g", group)
    lags = [lag(admin, group)]
    while lags[-1] and len(lags) < 100:
        time.sleep(0.5)
        lags.append(lag(admin, group))
    application.stop()

    assert re.search(r"^\S+@\S+ +127\.0\.0\.1:\d+ +PYTHON +V5_\d_\d", connection, re.MULTILINE)
    assert re.search(rf"^{re.escape(topic)} +\*", connection, re.MULTILINE)
    assert re.search(rf"^%RETRY%{re.escape(group)} +\*", connection, re.MULTILINE)
    assert "MessageModel: CLUSTERING" in connection
    assert "ConsumeType: CONSUME_PASSIVELY" in connection
    assert all(later <= earlier for earlier, later in pairwise(lags)), lags
    assert len(set(lags)) >= 4, lags
    assert 0 == lags[-1]


def lag(admin: Admin, group: str) -> int:
    """How many messages mqadmin says the group is behind."""
    printed = admin.run("consumerProgress", "-g", group)
    total = re.search(r"Consume Diff Total: (\d+)", printed)
    assert total, printed
    return int(total[1])
