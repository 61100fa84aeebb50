"""Two members take one queue: whose records count, and how the one that keeps it takes it anew."""

from __future__ import annotations

import asyncio

import pytest

from framework.core import limits
from framework.core.window import Window
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.contracts import Kept
from framework.model.queue import MessageQueue
from tests.services.offsets.progress_scene import END, LOW, Broker, Means, Owner, holds, stuck_at_low
from tests.services.parts import QUEUE, play


class SlowToAnswer:
    """A store that keeps a record at once, and says so a second later."""

    def __init__(self, broker: Broker) -> None:
        self._store = TopicStore().open(Means(broker))

    async def read(self, queue: MessageQueue) -> Kept | None:
        return await self._store.read(queue)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        epoch = await self._store.take(queue, content)
        await asyncio.sleep(1)
        return epoch

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        await self._store.write(queue, epoch, content)


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


@pytest.mark.parametrize("safeguard", [None, "a take that was cut off is released"])
def test_who_loses_a_queue_while_its_take_is_on_the_way_lets_it_go_all_the_same(safeguard: str | None) -> None:
    """The store has taken it and fences the owner by it, who would wait for a word and leave without a last commit."""

    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        passer_by = Owner(broker, SlowToAnswer(broker))
        beginning = asyncio.ensure_future(passer_by.begin())
        await asyncio.sleep(0.5)
        beginning.cancel()
        await asyncio.gather(beginning, return_exceptions=True)
        await passer_by.progress.release(Window.closed())
        first = owner.progress.epoch
        owner.end(LOW)
        owner.progress.fence.is_refused = owner.window.is_draining = True
        owner.offsets.advance(QUEUE, owner.window.settle())
        await owner.progress.release(owner.window)
        assert (True, END) == (first < owner.progress.epoch, broker.offset)

    holds(story, safeguard)


def test_who_loses_a_queue_before_it_took_it_leaves_no_word() -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        before = {place: list(messages) for place, messages in broker.places.items()}
        await Owner(broker).progress.release(Window.closed())
        assert before == broker.places

    play(story)


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
