"""What is kept above a gap: by whom it is believed, and what makes it count no more. Brokers and stores in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from framework import marks
from framework.core import limits
from framework.core.budget import Budget
from framework.core.offsets import OffsetTable
from framework.core.window import Window
from framework.errors import BrokerUnreachable, FrameworkError, Refused
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.contracts import KeepsProgress
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.wakeup import Wakeup
from framework.services.progress import Counts, QueueProgress
from framework.services.progress_use import Use
from framework.testing.sim_disk import SimDisk
from tests.core.making import PLENTY
from tests.services.parts import QUEUE, LoopClock, play, play_logged, told

LOW, END = 10, 21


@dataclass
class Broker:
    """One queue, the group's offset, and a topic for progress."""

    log: dict[int, Any] = field(default_factory=dict)
    offset: int | None = None
    places: dict[MessageQueue, list[Message]] = field(default_factory=dict)
    refusal: FrameworkError | None = None
    handed_out: int = 8
    """A stock broker hands out fewer messages from its disk than it is asked for."""

    def append(self, *offsets: int, life: int = 1) -> list[Any]:
        new = [
            SimpleNamespace(queue_offset=at, stored_ms=1_000 * life + at, commit_log_offset=100_000 * life + at)
            for at in offsets
        ]
        self.log |= {message.queue_offset: message for message in new}
        return new

    async def peek(self, group: str, queue: MessageQueue, offset: int, count: int) -> list[Any]:
        self._check()
        if queue == QUEUE:
            return [self.log[offset]] if offset in self.log else []
        return self.places.get(queue, [])[offset : offset + min(count, self.handed_out)]

    async def commit_confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        self._check()
        self.offset = committable()
        return self.offset

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        self._check()
        return self.offset

    def _check(self) -> None:
        if self.refusal is not None:
            raise self.refusal


class Means:
    """What a store is given, on this broker and this disk."""

    group, folder = "billing", "/progress/billing"

    def __init__(self, broker: Broker, disk: SimDisk | None = None) -> None:
        self.broker, self.files = broker, disk or SimDisk()

    async def in_thread(self, job: Callable[[], Any]) -> Any:
        await asyncio.sleep(0.001)
        return job()

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        return []

    async def end(self, queue: MessageQueue) -> int:
        self.broker._check()
        return len(self.broker.places.get(queue, []))

    async def peek(self, queue: MessageQueue, offset: int, count: int) -> Sequence[Message]:
        return await self.broker.peek(self.group, queue, offset, count)

    async def send(self, message: Message, queue: MessageQueue) -> int:
        self.broker._check()
        place = self.broker.places.setdefault(queue, [])
        place.append(
            Message(
                queue.topic, message.body, keys=message.keys, properties=message.properties, queue=queue,
                queue_offset=len(place),
            )
        )  # fmt: skip
        return len(place) - 1

    def at_broker(self) -> KeepsProgress:
        raise AssertionError("the stores of these tests have no use for a box")


class Owner:
    """One acquisition of the queue."""

    def __init__(
        self, broker: Broker, store: KeepsProgress | None = None, member: str = "", members: Sequence[str] = (),
        use: Use | None = None,
    ) -> None:  # fmt: skip
        self.broker, self.offsets = broker, OffsetTable()
        self.counts = Counts()
        self.progress = QueueProgress(
            "billing", QUEUE, store or TopicStore().open(Means(broker)), broker, self.offsets, LoopClock(), self.counts,
            broker.query_offset, member, lambda: members, use=use,
        )  # fmt: skip
        self.window = Window(0, Budget(PLENTY))
        self.bell = Wakeup()

    async def begin(self) -> Owner:
        offset = self.broker.offset
        await self.progress.begin(offset or 0, offset)
        self.goes_on_at(offset or 0)
        assert not self.progress.is_moved(self.window)
        return self

    def goes_on_at(self, offset: int) -> None:
        self.window = Window(offset, Budget(PLENTY))
        self.offsets.begin(QUEUE, offset, stored=None)

    def pull(self, end: int) -> None:
        """Take in what the broker has up to here, less what is passed over."""
        begin, passing = self.window.end, self.progress.passing
        messages = [
            self.broker.log[at]
            for at in range(begin, end)
            if at in self.broker.log and not (passing is not None and passing.covers(at))
        ]
        assert self.window.admit(messages, begin, end, 10) is not None

    def end(self, *offsets: int) -> None:
        for chunk in self.window.chunks:
            for index, message in enumerate(chunk.messages):
                if message.queue_offset in offsets:
                    chunk.finish(index)
            self.window.release(chunk)

    async def flush(self) -> None:
        for _ in range(2):  # a gap that has stayed is kept
            await self.progress.flush(self.window, self.bell)

    @property
    def passed(self) -> tuple[tuple[int, int], ...]:
        return () if self.progress.passing is None else self.progress.passing.ranges


async def stuck_at_low(broker: Broker) -> Owner:
    """An owner that has kept 11 to 20, while 10 is at work."""
    broker.append(*range(END))
    broker.offset = LOW
    owner = await Owner(broker).begin()
    owner.pull(END)
    owner.end(*range(LOW + 1, END))
    await owner.flush()
    return owner


@contextmanager
def without(safeguard: str | None) -> Iterator[None]:
    marks.install(holds=lambda name: name != safeguard)
    try:
        yield
    finally:
        marks.install()


def holds(story: Callable[[], Any], safeguard: str | None) -> None:
    """The story is true, and without the safeguard it is not."""
    with without(safeguard):
        if safeguard is None:
            play(story)
        else:
            with pytest.raises(AssertionError):
                play(story)


def test_the_next_owner_passes_over_what_was_kept() -> None:
    async def story() -> None:
        broker = Broker()
        before = await stuck_at_low(broker)
        after = await Owner(broker).begin()
        assert ((LOW + 1, END),) == after.passed
        assert after.progress.epoch > before.progress.epoch

        after.pull(END)
        assert [LOW] == [message.queue_offset for chunk in after.window.chunks for message in chunk.messages]
        third = await Owner(broker).begin()  # it had nothing more to keep, and what it inherited stands
        assert ((LOW + 1, END),) == third.passed

    play(story)


def test_what_is_inherited_and_what_has_ended_since_are_kept_together() -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        broker.append(*range(END, END + 10))
        after = await Owner(broker).begin()
        after.pull(END + 10)
        after.end(END + 3)
        await after.flush()
        assert ((LOW + 1, END), (END + 3, END + 4)) == (await Owner(broker).begin()).passed

    play(story)


@pytest.mark.parametrize("safeguard", [None, "a reset voids what was kept"])
def test_a_reset_of_the_owner_voids_what_it_kept(safeguard: str | None) -> None:
    """Progress comes past the old low end again, and whoever is next must not skip what was to be handled anew."""

    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        owner.goes_on_at(5)
        assert owner.progress.is_moved(owner.window)
        assert await owner.progress.start_over(owner.window)
        assert not owner.progress.is_moved(owner.window)
        broker.offset = LOW
        assert () == (await Owner(broker).begin()).passed

    holds(story, safeguard)


@pytest.mark.parametrize("safeguard", [None, "a record that is not applied is voided"])
def test_an_owner_that_begins_below_voids_what_was_kept(safeguard: str | None) -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        broker.offset = 5
        below = await Owner(broker).begin()
        assert () == below.passed
        assert 1 == below.counts.thrown
        broker.offset = LOW
        assert () == (await Owner(broker).begin()).passed

    holds(story, safeguard)


@pytest.mark.parametrize("safeguard", [None, "messages are compared before they are passed over"])
def test_a_topic_that_was_made_again_is_handled_whole(safeguard: str | None) -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        broker.log.clear()
        broker.append(*range(END), life=2)
        assert () == (await Owner(broker).begin()).passed

    holds(story, safeguard)


@pytest.mark.parametrize("safeguard", [None, "the last message passed over is compared, too"])
def test_a_log_that_lost_its_tail_is_handled_whole(safeguard: str | None) -> None:
    """The message at the low end is the same; above it lie new ones."""

    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        broker.append(*range(LOW + 5, END), life=2)
        assert () == (await Owner(broker).begin()).passed

    holds(story, safeguard)


@pytest.mark.parametrize("safeguard", [None, "the low end is confirmed before its ranges are kept"])
def test_ranges_are_kept_only_above_a_confirmed_offset(safeguard: str | None) -> None:
    async def story() -> None:
        broker = Broker()
        broker.append(*range(END))
        broker.offset = 0
        owner = await Owner(broker).begin()
        owner.pull(END)
        owner.end(*range(LOW), *range(LOW + 1, END))
        store = TopicStore().open(Means(broker))

        async def refuses(*_: object) -> int:
            raise BrokerUnreachable("no answer")

        owner.progress._looks = SimpleNamespace(peek=broker.peek, commit_confirmed=refuses)
        await owner.flush()
        kept = await store.read(QUEUE)
        assert kept is not None
        assert b"runs" not in kept.content
        assert 0 == broker.offset

    holds(story, safeguard)


@pytest.mark.parametrize("safeguard", [None, "each acquisition has an epoch of its own"])
def test_what_a_former_owner_still_writes_counts_no_more(safeguard: str | None) -> None:
    """It was stopped before its flush; meanwhile the group was reset, and its successor has voided what was kept."""

    async def story() -> None:
        broker = Broker()
        former = await stuck_at_low(broker)
        broker.offset = 5
        await Owner(broker).begin()
        broker.append(END)
        former.pull(END + 1)
        former.end(END)
        broker.offset = LOW
        await former.flush()
        assert () == (await Owner(broker).begin()).passed

    holds(story, safeguard)


@pytest.mark.parametrize("safeguard", [None, "an owner that was superseded takes its queue anew"])
def test_an_owner_that_another_one_has_superseded_for_a_moment_takes_its_queue_anew(safeguard: str | None) -> None:
    """The lists of two members differed: the second one took the queue, found itself wrong, and is gone again."""

    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        first = owner.progress.epoch
        passer_by = await Owner(broker).begin()
        broker.append(END)
        owner.pull(END + 1)
        owner.end(END)
        await asyncio.sleep(limits.TAKE_AGAIN_MS / 1000)
        await owner.flush()
        assert first < passer_by.progress.epoch < owner.progress.epoch
        assert ((LOW + 1, END + 1),) == (await Owner(broker).begin()).passed

    holds(story, safeguard)


def test_an_owner_whose_commits_are_refused_takes_its_queue_anew_though_nothing_is_above_a_gap() -> None:
    """It would write no record, and never hear otherwise that what it commits counts no more."""

    async def story() -> None:
        broker = Broker()
        broker.append(*range(4))
        broker.offset = 0
        owner = await Owner(broker).begin()
        first = owner.progress.epoch
        owner.pull(4)
        owner.end(0, 1)
        owner.progress.fence.is_refused = True  # and whoever took the queue is gone again
        await owner.flush()
        assert first == owner.progress.epoch, (
            "no sooner than after a while: two that both stay do not outbid each other"
        )
        await asyncio.sleep(limits.TAKE_AGAIN_MS / 1000)
        await owner.flush()
        assert first < owner.progress.epoch == owner.window.epoch
        assert QUEUE in dict(owner.offsets.dirty())

    play(story)


@pytest.mark.parametrize("safeguard", [None, "an owner that was superseded takes its queue anew"])
@pytest.mark.parametrize("is_leaving", [True, False])
def test_a_queue_that_a_passer_by_has_let_go_is_taken_anew_at_once(is_leaving: bool, safeguard: str | None) -> None:
    """Nobody would be outbid, and what the owner has done would be done again by whoever comes next."""

    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        passer_by = await Owner(broker).begin()
        await passer_by.progress.release(passer_by.window)
        owner.end(LOW)
        owner.progress.fence.is_refused = True
        owner.offsets.advance(QUEUE, owner.window.settle())
        if is_leaving:
            owner.window.is_draining = True
            await owner.progress.release(owner.window)
            assert END == broker.offset
        else:
            await owner.flush()
        assert passer_by.progress.epoch < owner.progress.epoch

    holds(story, safeguard)


def test_who_leaves_moves_no_offset_back_that_a_passer_by_has_left() -> None:
    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        passer_by = await Owner(broker).begin()
        await passer_by.progress.release(passer_by.window)
        broker.offset = LOW + 5
        owner.progress.fence.is_refused = owner.window.is_draining = True
        await owner.progress.release(owner.window)
        assert (True, LOW + 5) == (owner.progress.epoch < passer_by.progress.epoch, broker.offset)

    play(story)


@pytest.mark.parametrize("is_leaving", [True, False])
def test_who_is_leaving_or_has_just_taken_its_queue_outbids_nobody(is_leaving: bool) -> None:
    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        successor = await Owner(broker).begin()
        broker.append(END)
        owner.pull(END + 1)
        owner.end(END)
        if is_leaving:
            await asyncio.sleep(limits.TAKE_AGAIN_MS / 1000)
            owner.window.is_draining = True
        await owner.flush()
        assert owner.progress.epoch < successor.progress.epoch
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed

    play(story)


async def refuse(refusal: FrameworkError, *_: object) -> int:
    raise refusal


def test_a_queue_that_cannot_be_voided_is_not_begun() -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        broker.offset = 5
        means = Means(broker)

        async def refuses(*_: object) -> int:
            raise BrokerUnreachable("no answer")

        means.send = refuses  # type: ignore[method-assign, assignment]  # a store that takes no writes
        with pytest.raises(BrokerUnreachable):
            await Owner(broker, TopicStore().open(means)).begin()
        refusal = Refused(1, "no", request="SEND_MESSAGE_V2", peer="broker-a")
        means.send = partial(refuse, refusal)  # type: ignore[method-assign]  # likewise
        with pytest.raises(FrameworkError, match="its first record of progress could not be written: SEND_MESSAGE_V2"):
            await Owner(broker, TopicStore().open(means)).begin()
        broker.offset = LOW  # without a record that must be voided it goes on, and tries again when there is a gap
        owner = await Owner(broker, TopicStore().open(means)).begin()
        assert ((LOW + 1, END),) == owner.passed
        assert -1 == owner.progress.epoch

    play(story)


def test_while_ranges_are_kept_the_span_is_no_bound() -> None:
    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        assert await owner.bell.wait(0.0)
        broker.append(END)
        owner.pull(END + 1)
        owner.end(END)
        broker.refusal = BrokerUnreachable("no answer")
        await owner.flush()
        kept = [owner.window.is_kept]
        broker.refusal = None
        await owner.flush()
        assert [False, True] == [*kept, owner.window.is_kept]

    _, lines = play_logged(story)
    told_of = [line for line, *_ in told(lines, "queue")]
    assert 1 == told_of.count("progress not kept") == told_of.count("progress kept again")


def test_a_gap_that_closes_at_once_is_not_worth_a_record() -> None:
    """Unless it has stayed for a flush, or much has ended above it; an unchanged record is written each half minute."""

    async def story() -> None:
        broker = Broker()
        broker.append(*range(200))
        broker.offset = 0
        owner = await Owner(broker).begin()
        owner.pull(200)

        async def kept() -> int:
            await owner.progress.flush(owner.window, owner.bell)
            await asyncio.sleep(1)
            return owner.counts.kept

        owner.end(1)
        assert 0 == await kept()
        assert 1 == await kept()
        assert 1 == await kept()
        owner.end(0, 3)
        assert 1 == await kept()
        owner.end(2, *range(5, 5 + limits.RANGES_SMALL + 1))
        assert 2 == await kept()
        await asyncio.sleep(limits.RECORD_REFRESH_MS / 1000)
        assert 3 == await kept()

    play(story)
