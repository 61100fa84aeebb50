"""What is kept above a gap: by whom it is believed, and what makes it count no more. Brokers and stores in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from framework.core import limits
from framework.errors import BrokerUnreachable, FrameworkError, Refused
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.queue import MessageQueue
from tests.services.offsets.progress_scene import END, LOW, Broker, Means, Owner, holds, stuck_at_low
from tests.services.parts import QUEUE, play, play_logged, told


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

        owner.shared.brokers = cast("Any", SimpleNamespace(peek=broker.peek, commit_confirmed=refuses))
        await owner.flush()
        kept = await store.read(QUEUE)
        assert kept is not None
        assert b"runs" not in kept.content
        assert 0 == broker.offset

    holds(story, safeguard)


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
            return sum(map(len, broker.places.values())) - 1  # the first is written by the acquisition

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


class ResetsMeanwhile(Broker):
    """Somebody moves the group back while an owner waits for its offset to be confirmed."""

    owner: Owner | None = None
    resets = 0

    async def commit_confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        sent = await super().commit_confirmed(group, queue, committable)
        if self.owner is not None and not self.resets:
            self.resets += 1
            self.owner.goes_on_at(5)
            assert await self.owner.progress.start_over(self.owner.window)
        return sent


def test_a_reset_between_a_flush_s_confirm_and_its_write_leaves_no_ranges() -> None:
    """They speak of what is handled anew: once progress is past their low end, a successor would pass over them."""

    async def story() -> None:
        broker = ResetsMeanwhile()
        broker.append(*range(END))
        broker.offset = LOW
        owner = await Owner(broker).begin()
        owner.pull(END)
        owner.end(LOW, *range(LOW + 2, END))
        broker.owner = owner
        await owner.flush()
        assert 1 == broker.resets

        broker.offset = LOW + 1  # as far as it had come by then
        assert () == (await Owner(broker).begin()).passed

    play(story)
