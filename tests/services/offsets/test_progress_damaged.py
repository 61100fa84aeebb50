"""Records of progress that cannot be read: discarded after a few tries, so that no queue waits for them for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from framework.core import limits
from framework.core.ranges import decode
from framework.errors import BodyUndecodable, BrokerUnreachable, FrameworkError, RecordDamaged, Refused, StoreError
from framework.hooks.builtin.progress.progress_local import LocalStore
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.contracts import Kept
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.runtime.group.progressing import AskedStore
from framework.testing.sim.disk import SimDisk
from tests.services.offsets.progress_scene import END, LOW, Broker, Means, Owner, stuck_at_low
from tests.services.parts import QUEUE, LoopClock, play, play_logged, told

STOCK, BOX = (
    RecordDamaged("record at byte 0: the checksum is wrong"),
    Refused(1, "the message is damaged", request="PULL", peer="a"),
)


class Damaged(Broker):
    """Some records of the places are damaged: a stock broker hands them out, and the pull fails; the box does not."""

    def __init__(self, error: FrameworkError = STOCK) -> None:
        super().__init__()
        self.error, self.damaged = error, set[int]()

    async def peek(self, group: str, queue: MessageQueue, offset: int, count: int) -> list[Any]:
        found = await super().peek(group, queue, offset, count)
        at = [each.queue_offset for each in found if each.queue_offset in self.damaged]
        if not at or queue == QUEUE:
            return found
        if self.error is BOX and at[0] > offset:
            return [each for each in found if each.queue_offset < at[0]]
        raise self.error


async def begin(owner: Owner) -> int:
    """How many tries that takes."""
    for tries in range(1, 50):
        try:
            await owner.begin()
        except FrameworkError:
            continue
        return tries
    raise AssertionError("it never begins")


@pytest.mark.parametrize("error", [STOCK, BOX])
def test_a_damaged_record_is_discarded_after_a_few_tries(error: FrameworkError) -> None:
    async def story() -> None:
        broker = Damaged(error)
        await stuck_at_low(broker)
        (records,) = broker.places.values()
        broker.damaged = {len(records) - 1}
        successor = Owner(broker)
        assert limits.UNREAD_TRIES == await begin(successor)
        assert () == successor.passed, "repeats, never skips"

        successor.pull(END)
        successor.end(*range(LOW + 1, END))
        await successor.flush()
        third = Owner(broker)
        assert 1 == await begin(third), "what was written since can be read"
        assert ((LOW + 1, END),) == third.passed

    _, lines = play_logged(story)
    assert 1 == told(lines).count(("progress discarded",))


@pytest.mark.parametrize("error", [STOCK, BOX])
def test_what_lies_below_a_damaged_record_counts_no_more(error: FrameworkError) -> None:
    """The damaged one may have been of a newer acquisition, after a reset, and have taken it back."""

    async def story() -> None:
        broker = Damaged(error)
        owner = await stuck_at_low(broker)
        owner.goes_on_at(5)
        assert await owner.progress.start_over(owner.window)
        (records,) = broker.places.values()
        broker.damaged = {len(records) - 1}
        broker.offset = LOW
        successor = Owner(broker)
        await begin(successor)
        assert () == successor.passed

    play(story)


@pytest.mark.parametrize("error", [STOCK, BOX])
def test_a_damaged_record_of_an_older_acquisition_hurts_nobody(error: FrameworkError) -> None:
    async def story() -> None:
        broker = Damaged(error)
        await stuck_at_low(broker)
        (records,) = broker.places.values()
        broker.damaged = set(range(len(records)))
        await begin(Owner(broker))
        owner = Owner(broker)
        assert 1 == await begin(owner)
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed
        assert owner.progress.epoch > max(broker.damaged)

    _, lines = play_logged(story)
    assert ("progress not kept",) not in told(lines)


def test_a_message_at_the_low_end_that_cannot_be_read_holds_no_queue_either() -> None:
    async def story() -> None:
        broker = Damaged()
        await stuck_at_low(broker)
        successor = Owner(broker)

        async def peek(group: str, queue: MessageQueue, offset: int, count: int) -> list[Any]:
            raise STOCK

        successor.shared.brokers = cast("Any", SimpleNamespace(peek=peek, commit_confirmed=broker.commit_confirmed))
        assert limits.UNREAD_TRIES == await begin(successor)
        assert () == successor.passed

    play(story)


class Unreadable:
    """A plugin's store that cannot read what it has; a new record takes its place."""

    def __init__(self, error: Exception, *, takes: bool = True) -> None:
        self.error, self.takes = error, takes
        self.kept: Kept | None = None

    async def read(self, queue: MessageQueue) -> Kept | None:
        if self.kept is None:
            raise self.error
        return self.kept

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        if not self.takes:
            raise self.error
        self.kept = Kept(7, content)
        return 7

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        self.kept = Kept(epoch, content)


@pytest.mark.parametrize(
    "error", [ValueError("no JSON"), BodyUndecodable("truncated"), Refused(16, "no", request="r", peer="a")]
)
def test_a_store_that_cannot_read_a_record_and_can_write_one_holds_no_queue(error: Exception) -> None:
    async def story() -> int:
        return await begin(Owner(Broker(), AskedStore("billing", "strange", Unreadable(error), LoopClock())))

    assert limits.UNREAD_TRIES == play(story)


@pytest.mark.parametrize(("error", "takes"), [(BrokerUnreachable("away"), True), (ValueError("no"), False)])
def test_a_store_that_is_away_is_waited_for(error: Exception, takes: bool) -> None:
    """What it has kept is as good as before, once it is back."""

    async def story() -> None:
        store = AskedStore("billing", "strange", Unreadable(error, takes=takes), LoopClock())
        with pytest.raises(AssertionError, match="it never begins"):
            await begin(Owner(Broker(), store))

    play(story)


@pytest.mark.parametrize(
    "part", ['"epoch":1e999', '"epoch":1,"low":[1e999,1,1],"last":[5,1,1],"runs":[1,4]', '"epoch":1,"runs":[1e999]']
)
def test_numbers_without_end_make_no_record(part: str) -> None:
    content = f'{{"v":1,"topic":"orders","broker":"broker-a","queue":3,{part}}}'
    with pytest.raises(StoreError, match="not a record"):
        decode(content.encode(), QUEUE)


def test_a_file_that_is_damaged_while_its_queue_is_owned_is_written_again() -> None:
    async def story() -> None:
        broker, disk = Broker(), SimDisk()
        broker.append(*range(END))
        broker.offset = LOW
        owner = await Owner(broker, LocalStore().open(Means(broker, disk))).begin()
        (path,) = [path for path in disk._files if path.endswith(".progress")]
        disk._files[path] += b" "
        await asyncio.sleep(limits.TAKE_AGAIN_MS / 1000)
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        assert ((LOW + 1, END),) == (await Owner(broker, LocalStore().open(Means(broker, disk))).begin()).passed

    _, lines = play_logged(story)
    assert ("progress not kept",) not in told(lines)


def test_what_strangers_write_is_not_kept() -> None:
    """Thousands of keys a record: none of them is one of our queues, and none is remembered."""

    async def story() -> None:
        broker = Damaged()
        means = Means(broker)
        owner = await stuck_at_low(broker)
        store = TopicStore().open(means)
        epoch = await store.take(QUEUE, b"{}")
        (place,) = broker.places
        for at in range(limits.RECORDS_READ_MAX // 4):
            keys = tuple(f"stranger-{at}-{i}@broker-a:0" for i in range(20))
            await means.send(Message(place.topic, b"{}", keys=keys), place)
            await means.send(Message(place.topic, b"{}", keys=(str(QUEUE), "other@broker-a:0")), place)
        await store.write(QUEUE, epoch, b"{}")
        assert [QUEUE] == list(store._newest)  # type: ignore[attr-defined]
        assert owner.progress.epoch < epoch

    play(story)
