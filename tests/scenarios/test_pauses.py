"""A group is paused while a pull is in flight: what rode on it is told again, and its answer starts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from framework import Message, consumer
from framework.broker.intercept import Interceptor, Lost
from framework.broker.request import Request
from framework.declare import Consumer
from framework.model.queue import MessageQueue
from framework.settings.schema import AppSettings
from framework.wire.codes import RequestCode
from tests.simulation import broker_view
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Sent, Started
from tests.simulation.story import Story, tell
from tests.simulation.workload import Workload

KINDS: dict[str, dict[str, Any]] = {
    "async": {},
    "batches": {"batch": 4, "linger": "50ms"},
    "orderly": {"orderly": True},
    "by key": {"orderly": "key"},
}
QUEUE = MessageQueue("orders", "broker-a", 0)
SOON = "2500ms"
"""Two rounds of commits; what is told again for no reason comes each half minute."""


class Scene:
    """One queue and one member, whose messages are handled at once."""

    def __init__(self, kind: str, *, takes_s: float = 0.0, **settings: Any) -> None:
        self.handled: list[int] = []
        self._options, self._takes_s = KINDS[kind], takes_s
        group = {"start": "first", "progress": "none", **settings}
        given = AppSettings.model_validate({"consumers": {"billing": group}})
        self.cluster = Cluster(apps=0, workload=Workload(queues=1), consumers=self._consumers, settings=given)

    def _consumers(self, _: Cluster) -> Sequence[Consumer[..., Any]]:
        async def one(message: Message) -> None:
            self.handled.append(message.queue_offset)
            await asyncio.sleep(self._takes_s)

        async def many(messages: list[Message]) -> None:
            self.handled += [message.queue_offset for message in messages]
            await asyncio.sleep(self._takes_s)

        return [consumer("orders", "billing", **self._options)(many if "batch" in self._options else one)]

    async def begin(self, story: Story, count: int, *, at_least: int | None = None) -> Any:
        """One member that has begun with all that was sent, or with a few of them."""
        (machine,) = await story.start_apps(1)
        await story.send("orders", count)
        await story.within("30s").until(lambda _: len(self.handled) >= (at_least or count))
        return machine

    def held_by(self, machine: Any) -> int:
        """Messages that were pulled and are not done."""
        return sum(pull.flow.window.messages for pull in machine.app._groups[0].owned.values())

    @property
    def broker(self) -> Any:
        return self.cluster.broker.broker

    @property
    def stored(self) -> int | None:
        return broker_view.stored_offset(self.broker, "billing", str(QUEUE))


@pytest.mark.parametrize("kind", KINDS)
def test_an_offset_that_rode_on_a_pull_in_flight_is_committed_by_itself(kind: str) -> None:
    """The pull is given up by the pause and never arrives: nobody else would tell the broker for half a minute."""
    scene = Scene(kind, cache_count=1)  # the next pull waits until all is handled, and takes the offset along

    async def scenario(story: Story) -> None:
        machine = await scene.begin(story, 4)
        await story.sleep("3s")
        machine.app.pause("billing")
        await story.send("orders", 3)

        def takes_it_along(request: Request) -> bool:
            return request.command.fields["commitOffset"] == "7"

        lost = Interceptor(code=RequestCode.PULL_MESSAGE, lose=Lost.REQUEST, times=None, when=takes_it_along)
        scene.broker.intercept(lost)
        machine.app.resume("billing")
        await story.within("20s").until(lambda _: lost.hits > 0)
        assert scene.stored == 4
        machine.app.pause("billing")
        await story.sleep(SOON)
        assert scene.stored == 7

    tell(scenario, scene.cluster)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_was_pulled_is_started_and_nothing_more_is_pulled(kind: str) -> None:
    scene = Scene(kind, takes_s=1.0, concurrency=1)

    async def scenario(story: Story) -> None:
        machine = await scene.begin(story, 20, at_least=2)
        machine.app.pause("billing")
        await story.sleep("3s")
        begun, held = len(scene.handled), scene.held_by(machine)
        assert begun < 20
        await story.send("orders", 5)
        await story.sleep("40s")
        assert (begun, held) == (len(scene.handled), scene.held_by(machine))
        machine.app.resume("billing")
        await story.within("1m").until(lambda _: len(scene.handled) == 25)

    tell(scenario, scene.cluster)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_to_a_pull_in_flight_starts_nothing_and_loses_nothing(kind: str) -> None:
    """It is on its way back when the group is paused: for each instant between its arrival there and here."""
    for late_ms in (0, 1, 2, 5, 20):
        scene = Scene(kind)

        async def scenario(story: Story, scene: Scene = scene, late_ms: int = late_ms) -> None:
            machine = await scene.begin(story, 4)
            await story.send("orders", 6)
            if late_ms:
                await story.sleep(f"{late_ms}ms")
            machine.app.pause("billing")
            await story.sleep("200ms")
            before = len(scene.handled)
            started = len(list(story.history.of(Started)))
            await story.send("orders", 5)
            await story.sleep("70s")
            assert (before, started) == (len(scene.handled), len(list(story.history.of(Started))))
            assert scene.held_by(machine) <= 10 - before, "what was sent since waits at the broker"
            machine.app.resume("billing")
            await story.within("30s").until(lambda _: len(set(scene.handled)) == 15)
            await story.sleep(SOON)
            assert (list(range(15)), 15) == (sorted(scene.handled), scene.stored)
            assert 15 == len(list(story.history.of(Sent)))

        tell(scenario, scene.cluster)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_is_paused_and_stopped_leaves_what_it_has_committed(kind: str) -> None:
    scene = Scene(kind)

    async def scenario(story: Story) -> None:
        machine = await scene.begin(story, 4)
        await story.send("orders", 6)
        machine.app.pause("billing")
        began = story.now
        await story.leave(machine)
        assert story.now - began < 5
        done = len(scene.handled)
        assert done == scene.stored
        story.restart(machine)
        await story.within("30s").until(lambda _: len(scene.handled) == 10)
        assert list(range(10)) == sorted(scene.handled)

    tell(scenario, scene.cluster)
