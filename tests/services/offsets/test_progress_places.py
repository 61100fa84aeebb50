"""Where progress is kept: a topic that queues share, files of this machine, these where there may be no topic."""

from __future__ import annotations

import asyncio

import pytest

from framework.core import limits
from framework.errors import FrameworkError, Refused, StoreError
from framework.hooks.builtin.progress.progress_local import LocalStore
from framework.model.contracts import Kept
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.runtime.group.progressing import AskedStore, _OrInstead
from framework.testing.sim.disk import SimDisk
from tests.services.offsets.progress_scene import END, LOW, Broker, Means, Owner, stuck_at_low
from tests.services.parts import QUEUE, LoopClock, play, play_logged


def test_the_last_record_is_found_behind_those_of_other_queues() -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        (place,) = broker.places
        means = Means(broker)
        for _ in range(300):
            await means.send(Message(place.topic, b"{}", keys=("other@broker-a:0",)), place)
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed
        for _ in range(limits.RECORDS_READ_MAX):
            await means.send(Message(place.topic, b"{}", keys=("other@broker-a:0",)), place)
        assert () == (await Owner(broker).begin()).passed

    play(story)


def test_files_of_this_machine_keep_it_too() -> None:
    async def story() -> None:
        broker, disk = Broker(), SimDisk()
        stores = [LocalStore().open(Means(broker, disk)) for _ in range(3)]
        broker.append(*range(END))
        broker.offset = LOW
        former = await Owner(broker, stores[0]).begin()
        former.pull(END)
        former.end(*range(LOW + 1, END))
        await former.flush()
        successor = await Owner(broker, stores[1]).begin()
        assert ((LOW + 1, END),) == successor.passed
        with pytest.raises(StoreError, match="another process of this machine has taken the queue since"):
            await stores[0].write(QUEUE, former.progress.epoch, b"late")

        (path,) = [path for path in disk._files if path.endswith(".progress")]
        disk._files[path] += b" "
        with pytest.raises(StoreError, match="checksum"):
            await stores[2].read(QUEUE)
        damaged = await Owner(broker, stores[2]).begin()
        assert () == damaged.passed
        assert () == (await Owner(broker, stores[1]).begin()).passed

    _, lines = play_logged(story)
    assert 1 == [line["event"] for line in lines].count("progress discarded")


class Refusing:
    """Brokers that make no topic, or let nobody read it."""

    def __init__(self, *, may_not_read: bool = False) -> None:
        self.may_not_read = may_not_read

    async def read(self, queue: MessageQueue) -> Kept | None:
        if self.may_not_read:
            raise Refused(16, "no permission", request="GET_MAX_OFFSET", peer="broker-a")
        return None

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        raise Refused(17, "topic not exist, apply first please!", request="SEND_MESSAGE_V2", peer="broker-a")

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        raise AssertionError("nothing is written to a topic that is not there")


@pytest.mark.parametrize("may_not_read", [False, True])
def test_what_this_machine_kept_is_found_by_the_next_process(may_not_read: bool) -> None:
    """Which has yet to learn that there is no topic."""

    async def story() -> None:
        broker, disk = Broker(), SimDisk()
        broker.append(*range(END))
        broker.offset = LOW

        def store() -> _OrInstead:
            local = LocalStore().open(Means(broker, disk))
            return _OrInstead("billing", Refusing(may_not_read=may_not_read), local)

        owner = await Owner(broker, store()).begin()
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        for _ in range(2):
            assert ((LOW + 1, END),) == (await Owner(broker, store()).begin()).passed

    play(story)


def test_where_the_topic_may_not_be_made_this_machine_keeps_it() -> None:
    async def story() -> None:
        broker = Broker()
        broker.append(*range(END))
        broker.offset = LOW
        store = _OrInstead("billing", Refusing(), LocalStore().open(Means(broker)))
        for _ in range(2):
            owner = await Owner(broker, store).begin()
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        assert ((LOW + 1, END),) == (await Owner(broker, store).begin()).passed

    _, lines = play_logged(story)
    assert 1 == [line["event"] for line in lines].count("progress kept locally")


class Slow(Refusing):
    """Answers some queues later than others."""

    def __init__(self, *, reads: str = "", takes: str = "") -> None:
        super().__init__()
        self._reads, self._takes = reads, takes

    async def read(self, queue: MessageQueue) -> Kept | None:
        await asyncio.sleep(5.0 if queue.topic == self._reads else 0.1)
        return await super().read(queue)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        await asyncio.sleep(5.0 if queue.topic == self._takes else 0.1)
        return await super().take(queue, content)


@pytest.mark.parametrize("slow", ["reads", "takes"])
def test_a_queue_whose_turn_comes_while_another_is_refused_has_its_record_and_keeps_it(slow: str) -> None:
    """The queues of a group begin side by side, and the first that is refused moves them all to this machine's files:
    once, all 99 messages above a stuck one came again.
    """
    other = MessageQueue("other", "broker-a", 0)

    async def story() -> None:
        broker, disk = Broker(), SimDisk()
        local = LocalStore().open(Means(broker, disk))
        await local.take(QUEUE, b"of a process before this one")
        store = _OrInstead("billing", Slow(**{slow: QUEUE.topic}), local)

        async def begins(queue: MessageQueue) -> Kept | None:
            found = await store.read(queue)
            await store.take(queue, b"of this one")
            return found

        found = await asyncio.gather(begins(QUEUE), begins(other))
        assert [Kept(0, b"of a process before this one"), None] == list(found)
        assert [Kept(1, b"of this one"), Kept(0, b"of this one")] == [await local.read(each) for each in (QUEUE, other)]

    _, lines = play_logged(story)
    assert 1 == [line["event"] for line in lines].count("progress kept locally")


class Strange:
    """A plugin's, which raises what is none of ours."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken

    def _call(self, what: str) -> None:
        if what in self.broken:
            raise ValueError(f"no {what} today")

    async def read(self, queue: MessageQueue) -> Kept | None:
        self._call("read")
        return None

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        self._call("take")
        return 1

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        self._call("write")


def test_a_queue_does_not_begin_while_a_strange_store_cannot_be_read() -> None:
    async def story() -> None:
        owner = Owner(Broker(), AskedStore("billing", "strange", Strange("read"), LoopClock()))
        with pytest.raises(FrameworkError, match=r"progress store strange: ValueError: .*no read today"):
            await owner.begin()

    play(story)


@pytest.mark.parametrize("broken", [("write",), ("take", "write")])
def test_handling_goes_on_while_a_strange_store_cannot_be_written(broken: tuple[str, ...]) -> None:
    async def story() -> int:
        broker = Broker()
        broker.append(*range(END))
        broker.offset = LOW
        owner = await Owner(broker, AskedStore("billing", "strange", Strange(*broken), LoopClock())).begin()
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        owner.end(LOW)
        return owner.window.settle()

    settled, lines = play_logged(story)
    assert END == settled
    (failed,) = [line for line in lines if line["event"] == "progress not kept"]
    assert "progress store strange: ValueError" in failed["reason"]
