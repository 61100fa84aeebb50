"""What an acquisition took over, or kept itself, must not reach beyond a reset or into its next beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from framework.core import limits
from framework.errors import BrokerUnreachable
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.queue import MessageQueue
from tests.services.offsets.progress_scene import END, LOW, Broker, Means, Owner, stuck_at_low
from tests.services.parts import QUEUE, end, play, start

BELOW = 5
"""To where somebody resets the group."""


async def successor(broker: Broker) -> Owner:
    """It passes over 11 to 20, and has pulled 10."""
    owner = await Owner(broker).begin()
    assert ((LOW + 1, END),) == owner.passed
    owner.pull(END)
    return owner


async def reset(owner: Owner, offset: int = BELOW) -> None:
    owner.goes_on_at(offset)
    assert owner.progress.is_moved(owner.window)
    assert await owner.progress.start_over(owner.window)


async def begun_again(owner: Owner) -> None:
    """The same acquisition begins once more, at what is stored: its lease was lost, or its broker was doubted."""
    await owner.begin()


# A reset


def test_a_reset_by_a_successor_is_for_what_it_took_over_as_well() -> None:
    """A flush behind it must not bring back the ranges of before: the next owner would skip what was reset."""

    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        owner = await successor(broker)
        await reset(owner)
        assert () == owner.passed
        owner.pull(END)
        owner.end(BELOW + 2)
        await owner.flush()
        broker.offset = BELOW
        third = await Owner(broker).begin()
        assert ((BELOW + 2, BELOW + 3),) == third.passed

    play(story)


def test_a_release_behind_a_reset_keeps_what_ended_since_and_no_more() -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        owner = await successor(broker)
        await reset(owner)
        owner.pull(END)
        owner.end(BELOW, BELOW + 2)
        assert await owner.progress.release(owner.window)
        assert BELOW + 1 == broker.offset
        assert ((BELOW + 2, BELOW + 3),) == (await Owner(broker).begin()).passed

    play(story)


def test_what_is_kept_after_a_reset_is_written_though_it_reads_as_before() -> None:
    """The store was told that nothing counts: the same ranges again are news to it."""

    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        await reset(owner, LOW)
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed

    play(story)


def test_after_a_reset_the_span_is_a_bound_again() -> None:
    async def story() -> None:
        owner = await stuck_at_low(Broker())
        assert owner.window.is_kept
        before = owner.window
        await reset(owner)
        assert (True, False) == (before.is_kept, owner.window.is_kept)

    play(story)


def test_a_gap_of_before_a_reset_does_not_last_behind_it() -> None:
    """One that stays for a flush is worth a record; what had ended before the reset says nothing of the gap now."""

    async def story() -> int:
        broker = Broker()
        owner = await stuck_at_low(broker)
        await reset(owner, LOW)
        owner.pull(END)
        owner.end(LOW + 1)
        before = sum(map(len, broker.places.values()))
        await owner.progress.flush(owner.window, owner.bell)
        return sum(map(len, broker.places.values())) - before

    assert 0 == play(story)


@pytest.mark.parametrize("what", ["nothing kept", "something kept"])
def test_a_reset_is_written_down_where_a_record_may_stand_and_only_there(what: str) -> None:
    async def story() -> int:
        broker = Broker()
        if what == "something kept":
            owner = await stuck_at_low(broker)
        else:
            broker.append(*range(END))
            broker.offset = LOW
            owner = await Owner(broker).begin()
        before = sum(map(len, broker.places.values()))
        await reset(owner)
        await reset(owner, BELOW - 1)
        return sum(map(len, broker.places.values())) - before

    assert (1 if what == "something kept" else 0) == play(story)


def test_a_void_that_fails_holds_the_queue_until_it_is_written() -> None:
    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        owner.goes_on_at(BELOW)
        store = owner.shared.store
        owner.shared.store = owner.progress._store = Unwritable(store)
        for _ in range(2):
            assert not await owner.progress.start_over(owner.window)
            assert owner.progress.is_moved(owner.window)
        owner.progress._store = store
        assert await owner.progress.start_over(owner.window)
        assert not owner.progress.is_moved(owner.window)
        broker.offset = LOW
        assert () == (await Owner(broker).begin()).passed

    play(story)


class Unwritable:
    def __init__(self, store: object) -> None:
        self.read = store.read  # type: ignore[attr-defined] # as the store it stands for

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        raise BrokerUnreachable("no answer")

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        raise BrokerUnreachable("no answer")


# The same acquisition begins again


def test_what_was_taken_over_is_read_anew_when_a_queue_begins_again() -> None:
    """Another member may have voided it meanwhile."""

    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        owner = await successor(broker)
        broker.offset = BELOW
        await begun_again(owner)
        assert () == owner.passed
        owner.pull(END)
        owner.end(BELOW + 2)
        await owner.flush()
        assert ((BELOW + 2, BELOW + 3),) == (await Owner(broker).begin()).passed

    play(story)


def test_a_record_that_was_kept_before_a_queue_began_again_is_written_again() -> None:
    """Beginning has voided it, so that it is news to the store, though it reads as what was kept last."""

    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        broker.offset = BELOW
        await begun_again(owner)
        owner.pull(END)
        owner.end(*range(BELOW, LOW), *range(LOW + 1, END))
        await owner.flush()
        assert LOW == broker.offset
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed

    play(story)


def test_a_queue_that_begins_again_without_a_record_of_its_own_has_no_epoch_of_the_last_time() -> None:
    """What it commits and writes would else go by the epoch of an acquisition that is over."""

    async def story() -> None:
        broker = Broker()
        broker.append(*range(END))
        broker.offset = LOW
        owner = await Owner(broker).begin()
        first = owner.progress.epoch
        assert [first] == [owner.window.epoch]
        store, owner.progress._store = owner.progress._store, Unwritable(owner.progress._store)
        await begun_again(owner)
        assert [-1, None] == [owner.progress.epoch, owner.window.epoch]
        owner.progress._store = store
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        assert first < owner.progress.epoch == owner.window.epoch

    play(story)


class Silent(Broker):
    """Does not answer looks at its messages while it is silent."""

    is_silent = False

    async def peek(self, group: str, queue: MessageQueue, offset: int, count: int) -> list[object]:
        if self.is_silent and queue == QUEUE:
            await asyncio.sleep(3)
            raise BrokerUnreachable("no answer")
        return await super().peek(group, queue, offset, count)


def test_a_beginning_that_fails_leaves_nothing_of_the_last_one() -> None:
    async def story() -> None:
        broker = Silent()
        await stuck_at_low(broker)
        owner = await successor(broker)
        broker.is_silent = True
        with pytest.raises(BrokerUnreachable):
            await owner.progress.begin(LOW, LOW)
        assert (None, -1) == (owner.progress.passing, owner.progress.epoch)
        broker.is_silent = False
        await begun_again(owner)
        assert ((LOW + 1, END),) == owner.passed

    play(story)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_reset_while_a_queue_begins_again_voids_what_another_member_has_kept_meanwhile(*, is_cut_off: bool) -> None:
    """When it began first there was no record; there may be one by now, and nobody has read it yet."""

    async def story() -> None:
        broker = Silent()
        broker.append(*range(END))
        broker.offset = LOW
        owner = await Owner(broker).begin()
        await stuck_at_low(broker)
        broker.is_silent = True
        beginning = start(owner.progress.begin(LOW, LOW))
        if is_cut_off:
            await asyncio.sleep(1)
            await end(beginning)
        else:
            await asyncio.gather(beginning, return_exceptions=True)
        broker.is_silent = False
        await reset(owner)
        broker.offset = LOW
        assert () == (await Owner(broker).begin()).passed

    play(story)


# Confirmed across a reset


class ResetsMeanwhile(Broker):
    """Somebody moves the group back while its owner waits for an offset to be confirmed."""

    owner: Owner | None = None

    async def commit_confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        sent = await super().commit_confirmed(group, queue, committable)
        if self.owner is not None:
            owner, self.owner = self.owner, None
            owner.goes_on_at(BELOW)
            assert await owner.progress.start_over(owner.window)
        return sent


def test_an_offset_that_was_confirmed_across_a_reset_is_not_held_for_what_came_after() -> None:
    """When progress comes past that offset, it must be told once more: the broker holds another one since the reset."""

    async def story() -> None:
        broker = ResetsMeanwhile()
        broker.append(*range(END))
        broker.offset = LOW
        owner = await Owner(broker).begin()
        owner.pull(END)
        owner.end(LOW, *range(LOW + 2, END))
        broker.owner = owner
        await owner.flush()
        assert -1 == owner.offsets.held(QUEUE)
        owner.offsets.advance(QUEUE, LOW + 1)
        assert (LOW + 1, [(QUEUE, LOW + 1)]) == (owner.offsets.unconfirmed(QUEUE), owner.offsets.dirty())

    play(story)


class SlowToWrite(TopicStore):
    """A record is there at once, and its writer hears of it a second later."""

    def __init__(self, broker: Broker) -> None:
        self._store = self.open(Means(broker))
        self.read, self.take = self._store.read, self._store.take

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        await self._store.write(queue, epoch, content)
        await asyncio.sleep(1)


def test_what_a_flush_has_written_across_a_reset_is_written_again_behind_it() -> None:
    """The reset voided it, so that the same ranges are news to the store."""

    async def story() -> None:
        broker = Broker()
        broker.append(*range(END))
        broker.offset = LOW
        owner = await Owner(broker, SlowToWrite(broker)).begin()
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        flushing = start(owner.flush())
        await asyncio.sleep(0.5)
        await reset(owner, LOW)
        await flushing
        owner.pull(END)
        owner.end(*range(LOW + 1, END))
        await owner.flush()
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed

    play(story)


# A refusal, and who is taken for gone


def test_what_was_kept_before_a_queue_was_taken_anew_is_written_under_the_new_epoch() -> None:
    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        await Owner(broker).begin()
        owner.progress.fence.is_refused = True
        await asyncio.sleep(limits.TAKE_AGAIN_MS / 1000)
        await owner.flush()
        kept = await TopicStore().open(Means(broker)).read(QUEUE)
        assert kept is not None
        assert (owner.progress.epoch, True) == (kept.epoch, b"runs" in kept.content)

    play(story)
