"""Retries against real brokers: to the dead letters and no further, and past brokers that take nothing back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from framework import BatchFailed, DeadLetter, Message, RetryLater, consumer
from tests.interop.application import Application
from tests.interop.cluster import Cluster, Shape
from tests.interop.inside import application, running
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import until, wait_until

# Two brokers come up within a minute on a machine that is busy.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.xdist_group("retry")]

A, B = "broker-a", "broker-b"
READ, READ_WRITE = "4", "6"
BATCH = 10
Given = list[tuple[int, int, str]]
"""Of each message of a batch: its body's number, its attempt, its id."""


def shape(brokers: int, delay: str) -> Shape:
    """Their own: the permissions that are taken here are everybody's, and so are all the delays."""
    return Shape(brokers=brokers, settings={"messageDelayLevel": " ".join([delay] * 18)})


class Closable:
    """Brokers, and the permissions that can be taken from them."""

    def __init__(self, cluster: Cluster, java: JavaPeer, numbers: Callable[[], str]) -> None:
        self.name_server, self.java = cluster.name_server, java
        self.addresses = cluster.addresses.brokers
        self.admin = Admin(java, cluster.name_server)
        self._numbers = numbers

    def new_topic(self) -> str:
        topic = f"retried-{self._numbers()}"
        self.admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "2", "-w", "2")
        return topic

    def send(self, topic: str, broker: str, *bodies: bytes) -> list[str]:
        """To one queue of a broker; the ids."""
        sent = self.java.send(self.name_server, topic, [Outgoing(body=body) for body in bodies], queue=(broker, 0))
        return [each.message_id for each in sent]

    def set_broker(self, broker: str, permission: str) -> None:
        words = ("-b", self.addresses[broker], "-k", "brokerPermission", "-v", permission)
        self.admin.run("updateBrokerConfig", *words)

    def set_topic(self, topic: str, broker: str, permission: str) -> None:
        self.admin.run("updateTopicPerm", "-b", self.addresses[broker], "-t", topic, "-p", permission)


@pytest.fixture(scope="module")
def single(
    nursery: Nursery, java: JavaPeer, numbers: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Closable]:
    with Cluster(tmp_path_factory.mktemp("single"), nursery, shape(1, "0s")) as cluster:
        yield Closable(cluster, java, numbers)


@pytest.fixture(scope="module")
def pair(
    nursery: Nursery, java: JavaPeer, numbers: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Closable]:
    with Cluster(tmp_path_factory.mktemp("pair"), nursery, shape(2, "1s")) as cluster:
        yield Closable(cluster, java, numbers)


@contextmanager
def closed(brokers: Closable, name: str) -> Iterator[None]:
    """A broker is closed for writing."""
    brokers.set_broker(name, READ)
    try:
        yield
    finally:
        brokers.set_broker(name, READ_WRITE)


def member(brokers: Closable, nursery: Nursery, folder: Path, topic: str, **how: object) -> Application:
    return Application(nursery, folder, brokers.name_server, topic=topic, group=f"g-{topic}", **how)  # type: ignore[arg-type]  # of each its own


def test_poison_is_delivered_seventeen_times_and_then_a_dead_letter_once(
    single: Closable, nursery: Nursery, tmp_path: Path
) -> None:
    topic = single.new_topic()
    sent = single.java.send(
        single.name_server, topic, [Outgoing(body=b"poison", tags="t", keys="k", properties={"colour": "red"})]
    )
    application = member(single, nursery, tmp_path, topic, failures=99)
    received = application.received(17, timeout_s=120)
    grave = single.java.consume(single.name_server, f"undertakers-of-{topic}", f"%DLQ%g-{topic}")
    (buried,) = grave.received(1)
    assert [] == grave.received(1, timeout_s=2), "a second copy"
    grave.leave()
    ended = application.stop()

    assert list(range(1, 18)) == [each.attempt for each in application.so_far()]
    assert {(sent[0].message_id, b"poison", topic)} == {(each.message_id, each.body, each.topic) for each in received}
    theirs = {"TAGS": "t", "KEYS": "k", "colour": "red", "UNIQ_KEY": sent[0].message_id}
    assert all(theirs.items() <= each.properties.items() for each in received)
    assert {**theirs, "RETRY_TOPIC": topic}.items() <= buried.properties.items()
    assert (b"poison", sent[0].message_id) == (buried.body, buried.message_id)
    assert (16, 1, 0) == tuple(ended.events[-1][name] for name in ("retried", "dead_lettered", "handled"))


def test_a_broker_that_is_closed_for_writing_is_sent_copies_as_messages(
    single: Closable, nursery: Nursery, tmp_path: Path
) -> None:
    """It refuses send-backs, and still takes plain sends of topics that are not ordered."""
    topic = single.new_topic()
    sent = single.send(topic, A, *[b"%d" % number for number in range(4)])
    with closed(single, A):
        application = member(single, nursery, tmp_path, topic, failures=2)
        received = application.received(12)
        ended = application.stop()

    assert "send-back failed" in application.said()
    assert {(each, attempt): 1 for each in sent for attempt in (1, 2, 3)} == Counter(
        (each.message_id, each.attempt) for each in received
    )
    assert {topic} == {each.topic for each in received}
    names = ("RECONSUME_TIME", "MAX_RECONSUME_TIMES", "RETRY_TOPIC")
    assert {("1", "16", topic), ("2", "16", topic)} == {
        tuple(each.properties[name] for name in names) for each in received if each.attempt > 1
    }
    assert (8, 4, 0) == tuple(ended.events[-1][name] for name in ("retried", "handled", "abandoned"))


def test_a_group_without_a_retry_queue_does_not_start_and_one_that_loses_its_own_loses_no_message(
    single: Closable, nursery: Nursery, tmp_path: Path
) -> None:
    """The broker answers SUCCESS to each send-back then, and keeps nothing."""
    topic = single.new_topic()

    def retry_queues(count: int) -> None:
        single.admin.run("updateSubGroup", "-c", "DefaultCluster", "-g", f"g-{topic}", "-q", str(count))

    retry_queues(0)
    refused = member(single, nursery, tmp_path, topic)
    assert 78 == refused.ended().code
    complaint = f"group g-{topic}: retryQueueNums is 0 at broker {A}"
    assert complaint in refused.said()

    retry_queues(1)
    (tmp_path / "again").mkdir()
    application = member(single, nursery, tmp_path / "again", topic, failures=1)
    sent = single.send(topic, A, b"before")
    application.received(2)
    assert complaint not in application.said()
    retry_queues(0)
    sent += single.send(topic, A, *[b"%d" % number for number in range(8)])
    received = application.received(18)
    ended = application.stop()

    assert complaint in application.said()
    assert {(each, attempt): 1 for each in sent for attempt in (1, 2)} == Counter(
        (each.message_id, each.attempt) for each in received
    )
    assert (9, 9, 0) == tuple(ended.events[-1][name] for name in ("retried", "handled", "abandoned"))


def numbers_of(messages: list[Message]) -> Given:
    return [(int(each.body), each.attempt, each.message_id) for each in messages]


def test_each_message_of_a_batch_ends_as_its_handler_says(single: Closable) -> None:
    """Three groups of one topic, of whose first batch some messages are well: by a list of outcomes, by a failure that
    names the first that failed, and by the index up to which all is well.
    """
    topic = single.new_topic()
    ids = single.send(topic, A, *[b"%d" % number for number in range(BATCH)])
    batches: dict[str, list[Given]] = {"outcomes": [], "failure": [], "index": []}

    def is_first(name: str, messages: list[Message]) -> bool:
        batches[name].append(numbers_of(messages))
        return len(batches[name]) == 1

    @consumer(topic, f"outcomes-of-{topic}", batch=BATCH, linger="2s")
    async def one_by_one(messages: list[Message]) -> list[RetryLater | DeadLetter | None] | None:
        if not is_first("outcomes", messages):
            return None
        odd = [RetryLater("1s") if int(each.body) % 2 else None for each in messages]
        return [*odd[:-2], DeadLetter("no such account"), None]

    @consumer(topic, f"failure-of-{topic}", batch=BATCH, linger="2s")
    def from_the_fifth(messages: list[Message]) -> None:
        if is_first("failure", messages):
            raise BatchFailed("the fifth is broken", at=4)

    @consumer(topic, f"index-of-{topic}", batch=BATCH, linger="2s")
    async def up_to_the_fifth(messages: list[Message]) -> int | None:
        return 4 if is_first("index", messages) else None

    app = application(single.name_server, one_by_one, from_the_fifth, up_to_the_fifth)

    def again(name: str) -> Given:
        return sorted(each for batch in batches[name][1:] for each in batch)

    async def scenario() -> None:
        async with running(app):
            await until(lambda: [4, 6, 5] == [len(again(name)) for name in batches])
            await until(lambda: app.counts.handled == 3 * BATCH - 1)
            assert (15, 1) == (app.counts.retried, app.counts.dead_lettered)

    asyncio.run(scenario())
    for name, failed in {"outcomes": [1, 3, 5, 7], "failure": range(4, 10), "index": range(5, 10)}.items():
        assert [(number, 1, ids[number]) for number in range(BATCH)] == batches[name][0], name
        assert [(number, 2, ids[number]) for number in failed] == again(name), name

    grave = single.java.consume(single.name_server, f"undertakers-of-{topic}", f"%DLQ%outcomes-of-{topic}")
    (buried,) = grave.received(1)
    grave.leave()
    assert (b"8", ids[8]) == (buried.body, buried.message_id)


def test_beside_an_orderly_member_a_copy_that_is_sent_as_a_message_is_a_dead_letter(
    single: Closable, nursery: Nursery, tmp_path: Path
) -> None:
    """While any lock of a group is alive, a stock broker buries what is sent to its retry topic, after one attempt.
    Send-backs are refused here, so nothing else is left. (`test_mixed_group.py` has more of groups of both kinds.)
    """
    topic = single.new_topic()
    folders = [tmp_path / name for name in ("orderly", "concurrent")]
    for folder in folders:
        folder.mkdir()
    orderly = member(single, nursery, folders[0], topic, orderly=True)
    concurrent = member(single, nursery, folders[1], topic, failures=99)

    def has_a_queue(application: Application) -> bool:
        return "members=2 owned=1 queues=2" in application.said()  # of the topic, not of its retries

    wait_until(lambda: has_a_queue(orderly) and has_a_queue(concurrent), "a queue for each")
    with closed(single, A):
        sent = [
            each.message_id
            for queue in range(2)
            for each in single.java.send(single.name_server, topic, [Outgoing(body=b"any")], queue=(A, queue))
        ]
        wait_until(lambda: len(orderly.so_far()) == len(concurrent.so_far()) == 1, "a message for each")
        grave = single.java.consume(single.name_server, f"undertakers-of-{topic}", f"%DLQ%g-{topic}")
        (buried,) = grave.received(1)
        grave.leave()
    concurrent.stop()
    orderly.stop()
    (failed,) = concurrent.so_far()
    (handled,) = orderly.so_far()
    assert set(sent) == {failed.message_id, handled.message_id}
    assert (1, failed.message_id, b"any") == (failed.attempt, buried.message_id, buried.body)


@pytest.mark.slow
def test_copies_of_a_broker_that_is_closed_for_writing_go_to_another(
    pair: Closable, nursery: Nursery, tmp_path: Path
) -> None:
    topic = pair.new_topic()
    sent = pair.send(topic, A, *[b"%d" % number for number in range(4)])
    application = member(pair, nursery, tmp_path, topic, failures=1, pause_s=3)
    wait_until(lambda: "queue positioned" in application.said(), "queues")
    with closed(pair, A):
        received = application.received(8)
        ended = application.stop()

    assert "send-back failed" in application.said()
    again = [each for each in received if each.attempt == 2]
    assert sorted(sent) == sorted(each.message_id for each in again)
    assert {(B, topic)} == {(each.broker, each.topic) for each in again}
    names = ("RECONSUME_TIME", "MAX_RECONSUME_TIMES", "RETRY_TOPIC")
    assert {("1", "16", topic)} == {tuple(each.properties[name] for name in names) for each in again}
    assert (4, 4, 0) == tuple(ended.events[-1][name] for name in ("retried", "handled", "abandoned"))


@pytest.mark.slow
def test_copies_go_elsewhere_while_the_retry_topic_is_read_only(
    pair: Closable, nursery: Nursery, tmp_path: Path
) -> None:
    """Of a read-only topic a stock broker refuses send-backs alone: where both brokers' are, plain messages go on."""
    topic = pair.new_topic()
    retries = f"%RETRY%g-{topic}"
    application = member(pair, nursery, tmp_path, topic, failures=1)
    first = pair.send(topic, A, b"once") + pair.send(topic, B, b"once")
    application.received(4)

    pair.set_topic(retries, A, READ)
    second = pair.send(topic, A, b"goes to the other")
    received = application.received(6)
    assert [(second[0], 1, A), (second[0], 2, B)] == [
        (each.message_id, each.attempt, each.broker) for each in received[4:]
    ]

    pair.set_topic(retries, B, READ)
    third = pair.send(topic, A, *[b"%d" % number for number in range(5)])
    application.received(16)
    ended = application.stop()
    runs = Counter(each.message_id for each in application.so_far())
    assert dict.fromkeys([*first, *second, *third], 2) == runs
    assert (8, 8, 0) == tuple(ended.events[-1][name] for name in ("retried", "handled", "abandoned"))


@pytest.mark.slow
def test_where_nobody_takes_copies_others_go_on_and_all_ends_when_somebody_does(
    pair: Closable, nursery: Nursery, tmp_path: Path
) -> None:
    """A stock broker refuses the plain sends too where it is closed and the retry topic is marked as ordered."""
    topic = pair.new_topic()
    application = member(pair, nursery, tmp_path, topic, failures=1)
    first = pair.send(topic, A, b"once") + pair.send(topic, B, b"once")
    application.received(4)
    retries = f"%RETRY%g-{topic}"
    words = ("-t", retries, "-r", "1", "-w", "1", "-o", "true")
    # The command asks for this before it sets it, and prints an exception where there is nothing.
    pair.admin.run("updateKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", retries, "-v", f"{A}:1;{B}:1")
    for broker in (A, B):
        pair.admin.run("updateTopic", "-b", pair.addresses[broker], *words)

    with closed(pair, A), closed(pair, B):
        stuck = pair.send(topic, A, *[b"stuck %d" % number for number in range(5)])
        wait_until(lambda: "message parked" in application.said(), "the queue to say that it cannot send back")
        fine = pair.send(topic, A, *[b"fine"] * 20) + pair.send(topic, B, *[b"fine"] * 20)
        application.received(4 + 5 + 40)
        time.sleep(6)  # the sending is tried again meanwhile, and no handler runs
        assert 4 + 5 + 40 == len(application.so_far())

    application.received(4 + 10 + 40, timeout_s=90)
    time.sleep(2)
    ended = application.stop()
    runs = Counter(each.message_id for each in application.so_far())
    assert dict.fromkeys([*first, *stuck], 2) | dict.fromkeys(fine, 1) == runs
    assert (7, 47) == tuple(ended.events[-1][name] for name in ("retried", "handled"))
    assert "parked messages sent" in application.said()
