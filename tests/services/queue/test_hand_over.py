"""Handing a queue over without repeats: its former owner's word is waited for, within a limit."""

from __future__ import annotations

import asyncio

import pytest

from framework.core.window import Window
from framework.model.contracts import Kept
from framework.model.queue import MessageQueue
from tests.services.offsets.progress_scene import END, LOW, Broker, Owner, holds, stuck_at_low
from tests.services.parts import QUEUE, play, start

A, B, MEMBERS = "a@1", "b@1", ("a@1", "b@1")


@pytest.mark.parametrize("safeguard", [None, "a hand-over is awaited"])
def test_a_queue_is_begun_when_its_former_owner_has_let_it_go(safeguard: str | None) -> None:
    async def story() -> None:
        broker = Broker(offset=LOW)
        former = await Owner(broker, member=A, members=MEMBERS).begin()
        asyncio.get_running_loop().call_later(0.75, lambda: start(former.progress.release(former.window)))
        successor = Owner(broker, member=B, members=MEMBERS)
        await successor.progress.handed_over()
        assert 0.75 <= asyncio.get_running_loop().time() < 1.0
        assert 1 == successor.shared.awaited

    holds(story, safeguard)


@pytest.mark.parametrize(
    ("members", "waited"),
    [
        pytest.param((A, B), 2.0, id="listed-and-silent"),
        pytest.param((B, "c@1"), 0.0, id="not-listed-any-more"),
        pytest.param((B,), 0.0, id="alone"),
    ],
)
def test_an_owner_that_says_nothing_is_waited_for_within_a_limit(members: tuple[str, ...], waited: float) -> None:
    async def story() -> None:
        broker = Broker(offset=LOW)
        await Owner(broker, member=A, members=MEMBERS).begin()
        successor = Owner(broker, member=B, members=members)
        await successor.progress.handed_over()
        assert waited == pytest.approx(asyncio.get_running_loop().time(), abs=0.15)
        await successor.progress.handed_over()  # asked for its position once more, it does not wait again
        assert waited == pytest.approx(asyncio.get_running_loop().time(), abs=0.15)

    play(story)


def test_a_wait_that_is_over_is_not_counted_and_not_asked_for_once_more() -> None:
    """A queue asks for its position again and again while its broker is away: the store is asked once."""

    async def story() -> None:
        broker = Broker(offset=LOW)
        await Owner(broker, member=A, members=MEMBERS).begin()
        successor = Owner(broker, member=B, members=MEMBERS)
        await successor.progress.handed_over()
        reads = 0
        read = successor.shared.store.read

        async def counted(queue: MessageQueue) -> Kept | None:
            nonlocal reads
            reads += 1
            return await read(queue)

        successor.shared.store.read = counted  # type: ignore[method-assign]  # counted, and as ever
        for _ in range(3):
            await successor.progress.handed_over()
        assert (0, 1) == (reads, successor.shared.awaited)

    play(story)


@pytest.mark.parametrize("safeguard", [None, "who comes second waits again"])
def test_of_two_that_waited_for_one_word_the_second_waits_for_the_first(safeguard: str | None) -> None:
    """Lists that change twice in a second name two owners; whoever is right, the other one lets go soon."""

    async def story() -> None:
        broker = Broker(offset=LOW)
        members = (A, B, "c@1")
        former = await Owner(broker, member=A, members=members).begin()
        first, second = (Owner(broker, member=name, members=members) for name in members[1:])
        await former.progress.release(former.window)
        await first.progress.handed_over()
        await second.progress.handed_over()
        assert await first.progress.begin(LOW, LOW)
        assert not await second.progress.begin(LOW, LOW)

        asyncio.get_running_loop().call_later(0.5, lambda: start(first.progress.release(Window.closed())))
        await second.progress.handed_over()
        assert 0.5 <= asyncio.get_running_loop().time() < 1.0
        assert await second.progress.begin(LOW, LOW)

    holds(story, safeguard)


def test_who_comes_second_begins_when_it_has_waited_for_long_enough() -> None:
    async def story() -> None:
        broker = Broker(offset=LOW)
        members = (A, B)
        second = Owner(broker, member=B, members=members)
        await second.progress.handed_over()
        await Owner(broker, member=A, members=members).begin()
        assert not await second.progress.begin(LOW, LOW)
        await second.progress.handed_over()
        assert await second.progress.begin(LOW, LOW)
        assert asyncio.get_running_loop().time() == pytest.approx(2.0, abs=0.15)

    play(story)


def test_a_word_that_comes_behind_the_wait_has_where_to_begin_asked_anew_once() -> None:
    """The former owner has committed since the offset was read, and its ranges went with that: they would repeat."""

    async def story() -> None:
        broker = Broker(offset=LOW)
        former = await Owner(broker, member=A, members=MEMBERS).begin()
        successor = Owner(broker, member=B, members=MEMBERS)
        await successor.progress.handed_over()
        await former.progress.release(former.window)
        assert not await successor.progress.begin(LOW, LOW)
        await successor.progress.handed_over()
        assert await successor.progress.begin(LOW, LOW)
        assert asyncio.get_running_loop().time() == pytest.approx(2.0, abs=0.15)

    play(story)


def test_a_word_that_nobody_waited_for_has_where_to_begin_asked_anew_once() -> None:
    """The former owner began to keep progress when its successor had looked for it already, and released."""

    async def story() -> None:
        broker = Broker(offset=LOW)
        successor = Owner(broker, member=B, members=MEMBERS)
        await successor.progress.handed_over()
        former = await Owner(broker, member=A, members=MEMBERS).begin()
        await former.progress.release(former.window)
        assert not await successor.progress.begin(LOW, LOW)
        await successor.progress.handed_over()
        assert await successor.progress.begin(LOW, LOW)
        assert asyncio.get_running_loop().time() < 0.1

    play(story)


def test_who_is_alone_asks_once_where_to_begin() -> None:
    """Whoever let the queue go has left since: its commit came before that."""

    async def story() -> None:
        broker = Broker(offset=LOW)
        former = await Owner(broker, member=A, members=MEMBERS).begin()
        await former.progress.release(former.window)
        successor = Owner(broker, member=B, members=(B,))
        await successor.progress.handed_over()
        assert await successor.progress.begin(LOW, LOW)

    play(story)


def test_what_had_ended_above_a_gap_survives_the_release() -> None:
    """Also what was inherited and not passed over yet."""

    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        await owner.progress.release(owner.window)
        second = await Owner(broker).begin()
        assert ((LOW + 1, END),) == second.passed
        await second.progress.release(Window.closed())
        third = await Owner(broker).begin()
        assert ((LOW + 1, END),) == third.passed
        third.pull(LOW + 1)
        third.end(LOW)
        await third.progress.release(third.window)
        broker.offset = third.offsets.committable(QUEUE)
        assert LOW + 1 == broker.offset
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed

    play(story)


def test_a_queue_that_was_moved_is_released_without_what_was_kept() -> None:
    async def story() -> None:
        broker = Broker()
        owner = await stuck_at_low(broker)
        owner.goes_on_at(5)
        await owner.progress.release(owner.window)
        broker.offset = LOW
        assert () == (await Owner(broker).begin()).passed

    play(story)
