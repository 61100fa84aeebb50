"""A queue that was taken over and not pulled yet (paused, or no room) is reset: what was kept of it counts no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from framework.core.queue_flow import QueueFlow
from framework.core.window import FlowLimits
from framework.model.pulled import Found, PullResult
from framework.services.queue.position import StartingPoint
from framework.services.queue.pull import PullLoop
from tests.core.making import PLENTY
from tests.services.offsets.progress_scene import END, LOW, Broker, Owner, stuck_at_low
from tests.services.parts import QUEUE, end, play, start, turns
from tests.services.queue.pull_scene import Group, Taken, handle

BELOW = 5


class Pulls:
    """Everything that the broker has, once; then a long poll that nothing ends."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> PullResult:
        await asyncio.sleep(0)
        messages: list[Any] = [message for at, message in sorted(self._broker.log.items()) if at >= offset]
        if not messages:
            await asyncio.get_running_loop().create_future()
        return Found(messages, 100, END, 0, END)


class Scene:
    """A successor of somebody who has kept 11 to 20. Its queue is held before it has pulled anything."""

    def __init__(self, broker: Broker, why: str) -> None:
        self.broker, self.why = broker, why
        self.owner = Owner(broker)
        self.group, self.pool = Group(), Taken()
        self.budget = self.owner.window._budget
        self.flow = QueueFlow(QUEUE, self.budget, FlowLimits(), jitter=0.0)
        self.loop = PullLoop(
            self.flow, pulls=Pulls(broker), pool=self.pool, call=handle, not_success=self.group.not_success,
            find_start=self._find_start, group=self.group, progress=self.owner.progress,
        )  # fmt: skip
        self.flow.run = self.loop
        self.hold()
        self.task = start(self.loop.run())

    async def _find_start(self) -> StartingPoint:
        return StartingPoint(self.broker.offset or 0, "stored", self.broker.offset)

    def hold(self) -> None:
        if self.why == "paused":
            self.flow.is_paused = True
        elif self.why == "held":
            self.flow.hold_reason = "a key is missing"
        else:
            self.budget.take(PLENTY)

    def let_go(self) -> None:
        if self.why == "paused":
            self.flow.is_paused = False
        elif self.why == "held":
            self.flow.hold_reason = None
        else:
            self.budget.give(PLENTY)
        self.loop.bell.ring()

    async def reset(self, offset: int) -> None:
        """As the group does it."""
        self.loop.reset(offset)
        await end(self.task)
        self.task = start(self.loop.run())
        self.broker.offset = offset

    @property
    def started(self) -> list[int]:
        return [message.queue_offset for chunk in self.pool.chunks for message in chunk.messages]


async def settled() -> None:
    await turns()
    await asyncio.sleep(1)


@pytest.mark.parametrize("why", ["paused", "budget", "held"])
@pytest.mark.parametrize("to", [BELOW, LOW])
def test_a_reset_of_a_queue_that_has_not_been_pulled_since_it_was_taken_over_skips_nothing(why: str, to: int) -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        scene = Scene(broker, why)
        await settled()
        assert (LOW, []) == (scene.flow.next_offset, scene.started)
        await scene.reset(to)
        scene.let_go()
        await settled()
        assert list(range(to, END)) == scene.started
        broker.offset = LOW
        assert () == (await Owner(broker).begin()).passed
        await end(scene.task)

    play(story)


@pytest.mark.parametrize("why", ["paused", "budget", "held"])
def test_without_a_reset_it_passes_over_what_was_kept(why: str) -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        scene = Scene(broker, why)
        await settled()
        scene.let_go()
        await settled()
        assert [LOW] == scene.started
        await end(scene.task)

    play(story)


@pytest.mark.parametrize("why", ["paused", "budget", "held"])
def test_what_was_kept_is_kept_for_the_next_by_who_leaves_before_the_first_pull(why: str) -> None:
    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        scene = Scene(broker, why)
        await settled()
        scene.flow.revoke()
        await end(scene.task)
        await scene.owner.progress.release(scene.flow.window)
        assert ((LOW + 1, END),) == (await Owner(broker).begin()).passed

    play(story)
