"""Orderly groups against a real cluster: order per queue, whoever has the queue, Java's members among them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from tests.interop.application import Application, Received
from tests.interop.cluster import Addresses
from tests.interop.java_peer import Incoming, JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = pytest.mark.interop

QUEUES = 4
BROKER = "broker-a"


class Stock:
    """A topic of four queues, whose messages say which queue they are of and which number they have there."""

    def __init__(self, java: JavaPeer, name_server: str, topic: str) -> None:
        self.java, self.name_server, self.topic = java, name_server, topic
        self.sent = 0

    def send(self, count: int) -> None:
        """So many more to each queue, each sharding key in a queue of its own."""
        for queue in range(QUEUES):
            messages = [
                Outgoing(body=b"%d %d" % (queue, number), properties={"shard": str(queue)})
                for number in range(self.sent, self.sent + count)
            ]
            self.java.send(self.name_server, self.topic, messages, queue=(BROKER, queue))
        self.sent += count

    @property
    def expected(self) -> dict[int, list[int]]:
        return {queue: list(range(self.sent)) for queue in range(QUEUES)}


@pytest.fixture
def stock(java: JavaPeer, cluster: Addresses, new_topic: Callable[..., str]) -> Stock:
    return Stock(java, cluster.name_server, new_topic(queues=QUEUES))


def member(nursery: Nursery, folder: Path, stock: Stock, **how: object) -> Application:
    folder.mkdir()
    group = f"keepers-of-{stock.topic}"
    return Application(nursery, folder, stock.name_server, topic=stock.topic, group=group, orderly=True, **how)  # type: ignore[arg-type]  # of each its own


def by_queue(messages: Iterable[Received | Incoming]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for message in messages:
        queue, number = map(int, message.body.split())
        found.setdefault(queue, []).append(number)
    return found


def test_order_is_kept_while_a_member_joins_and_leaves(stock: Stock, nursery: Nursery, tmp_path: Path) -> None:
    """Each hand-over is confirmed: nothing is repeated, and the second owner goes on where the first one ended."""
    stock.send(1)
    first = member(nursery, tmp_path / "first", stock, pause_s=0.05)
    first.received(QUEUES)
    second = member(nursery, tmp_path / "second", stock, pause_s=0.05)
    while not second.so_far():  # until it has queues; each of these messages goes to whoever owns its queue by then
        stock.send(1)
        time.sleep(0.2)
    stock.send(60)
    second.received(20)
    ended = second.stop()
    wait_until(lambda: len(first.so_far()) + len(second.so_far()) >= QUEUES * stock.sent, "all messages", pause_s=0.2)
    first.stop()

    before, after = by_queue(second.so_far()), by_queue(first.so_far())
    assert 0 == ended.code
    for queue, numbers in stock.expected.items():
        # The first one had it, the second one had two queues for a time, and the first one got them back.
        theirs, ours = before.get(queue, []), after.get(queue, [])
        assert theirs == list(range(theirs[0], theirs[-1] + 1)) if theirs else True
        assert ours == sorted(ours)
        assert numbers == sorted(theirs + ours), "each once"


def test_a_failing_message_holds_its_queue_until_it_is_a_dead_letter(
    stock: Stock, admin: Admin, java: JavaPeer, nursery: Nursery, tmp_path: Path
) -> None:
    """With two retries each message is tried three times in place; the copy is made once, with its id."""
    stock.send(2)
    application = member(nursery, tmp_path / "only", stock, failures=3, max_retries=2)
    tries = application.received(QUEUES * 2 * 3)
    wait_until(lambda: "dead" in dead_topics(admin, stock), "the dead letters", pause_s=0.5)
    grave = java.consume(stock.name_server, f"undertakers-of-{stock.topic}", f"%DLQ%keepers-of-{stock.topic}")
    buried = grave.received(QUEUES * 2)
    grave.leave()
    ended = application.stop()

    for queue in range(QUEUES):
        held = [(int(each.body.split()[1]), each.attempt) for each in tries if each.queue == queue]
        assert [(number, attempt) for number in range(2) for attempt in (1, 2, 3)] == held
    assert {each.message_id for each in tries} == {each.message_id for each in buried}
    assert QUEUES * 2 == len(buried)
    assert {stock.topic} == {each.properties["RETRY_TOPIC"] for each in buried}
    assert QUEUES * 2 == ended.events[-1]["dead_lettered"]


def dead_topics(admin: Admin, stock: Stock) -> str:
    return "dead" if f"%DLQ%keepers-of-{stock.topic}" in admin.run("topicList") else ""


def test_a_java_member_shares_the_group(stock: Stock, java: JavaPeer, nursery: Nursery, tmp_path: Path) -> None:
    """Both take two queues, under locks of the same broker, and neither sees a message of the other's."""
    ours = member(nursery, tmp_path / "ours", stock)
    theirs = java.consume(stock.name_server, f"keepers-of-{stock.topic}", stock.topic, orderly=True)
    wait_until(
        lambda: 2 == len(theirs.share(stock.topic).owned) == owned(stock.topic, ours.said()),
        "queues that both have divided, and locks that have changed hands",
    )
    stock.send(20)
    received = theirs.received(2 * 20)
    ours.received(2 * 20)
    java_s = by_queue(received)
    # Java tells its broker every five seconds, and once more as it leaves, without waiting for an answer: that last
    # word may come behind the next owner's question. So it leaves when all is told, and then nothing comes again.
    wait_until(lambda: all(told(stock, queue) == 20 for queue in java_s), "Java's offsets", pause_s=0.5)
    theirs.leave()
    stock.send(10)

    def is_all_there() -> bool:
        both = by_queue([*received, *ours.so_far()])
        return all(set(numbers) <= set(both.get(queue, ())) for queue, numbers in stock.expected.items())

    wait_until(is_all_there, "all messages")
    ours.stop()

    all_of_us = by_queue(ours.so_far())
    assert 2 == len(java_s)
    for queue, numbers in stock.expected.items():
        assert numbers == java_s.get(queue, []) + all_of_us.get(queue, []), queue


def owned(topic: str, said: str) -> int:
    """How many queues a member says that it has."""
    found = re.findall(rf"assignment changed.* owned=(\d+) .*topic={topic}$", said, re.MULTILINE)
    return int(found[-1]) if found else 0


def told(stock: Stock, queue: int) -> int | None:
    """How far the group is, by what its broker knows."""
    with Reader(ReaderSettings((stock.name_server,))) as reader:
        return reader.committed(f"keepers-of-{stock.topic}", MessageQueue(stock.topic, BROKER, queue))
