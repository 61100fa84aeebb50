"""Story: a scenario in plain calls: a cluster, actions by name, and questions with a deadline.

    async def test_a_crashed_member_s_queues_are_taken_over(story: Story) -> None:
        a, b = await story.start_apps(2)
        await story.send("orders", 1_000)
        story.crash(a)
        await story.within("2m").until(all_handled)

        assert story.owners("orders") == {b}
        story.check(nothing_lost, offsets_forward)

Everything that `Cluster`, the nemesis and the checkers can do is available; a story adds no power, only words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from framework.model.durations import to_ms
from framework.model.snapshot import Snapshot
from framework.testing.errors import Violation
from framework.testing.sim.machine import Machine
from tests.simulation.broker_view import dead_letters
from tests.simulation.checkers import ALL, Checker
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Finished, Sent
from tests.simulation.faults.nemesis import Nemesis
from tests.simulation.timeline import lines

T = TypeVar("T")
Condition = Callable[["Story"], bool]
LOOK_EACH_S = 0.05


class Story:
    """One told on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history = cluster.history
        self.nemesis = Nemesis(cluster, ())

    def __repr__(self) -> str:
        return f"<Story on {self.cluster!r}>"

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self.cluster.loop.now

    # -- who is there

    async def start_apps(self, count: int) -> list[Machine]:
        """Start a broker (unless it runs), a producer, and `count` applications; return when all are balanced."""
        if not self.cluster.broker.is_alive:
            await self.cluster.start_broker()
            await self.cluster.start_producer()
        idle = [machine for machine in self.cluster.apps if not machine.is_alive]
        while len(idle) < count:
            idle.append(self.cluster.add_app())
        for machine in idle[:count]:
            self.cluster.start_app(machine)
        await self.within("30s").until(all_balanced)
        return idle[:count]

    async def leave(self, machine: Machine) -> None:
        """It drains and ends in order."""
        self.cluster.leave(machine)
        assert machine.task is not None
        await machine.task

    def crash(self, machine: Machine) -> None:
        self.cluster.crash(machine)

    def cut_power(self, machine: Machine) -> None:
        self.cluster.power_cut(machine)

    def stop(self, machine: Machine, length: str) -> None:
        """SIGSTOP, and SIGCONT after `length`."""
        assert machine.node is not None
        self.cluster.loop.hold(machine.node, to_ms(length) / 1000)

    def restart(self, machine: Machine) -> None:
        self.cluster.start_app(machine)

    async def restart_broker(self) -> None:
        """Killed, and at once started again on its disk."""
        self.cluster.crash(self.cluster.broker)
        await self.cluster.start_broker()

    def cut_off(self, machine: Machine, length: str) -> None:
        """For `length` nothing passes between the member and the broker."""
        self.cluster.network.cut(machine.host, self.cluster.broker.host, to_ms(length) / 1000)

    async def heal(self) -> None:
        await self.nemesis.heal()

    # -- what happens

    async def send(self, topic: str, count: int, *, over: str = "0s") -> int:
        """Send `count` messages; return how many were acknowledged."""
        return await self.cluster.send(count, topic=topic, period_s=to_ms(over) / 1000)

    async def sleep(self, length: str) -> None:
        await asyncio.sleep(to_ms(length) / 1000)

    def within(self, length: str) -> Within:
        """`await story.within("2m").until(all_handled)`."""
        return Within(self, length)

    # -- questions

    def owners(self, topic: str) -> set[Machine]:
        """The living machines that own a queue of the topic, as each of them believes."""
        return {machine for machine in self.cluster.apps if self.queues_of(machine, topic)}

    def queues_of(self, machine: Machine, topic: str) -> list[str]:
        if not machine.is_alive or machine.app is None:
            return []
        groups = machine.app.snapshot().groups
        return [queue.queue for group in groups for queue in group.queues if queue.queue.startswith(f"{topic}@")]

    def handled(self, group: str | None = None) -> list[str]:
        """The messages handled well, with repeats, in order."""
        return [fact.message_id for fact in self.history.of(Finished) if fact.is_ok and group in {None, fact.group}]

    def check(self, *checkers: Checker) -> None:
        """These truths hold in what has happened so far; without arguments, all of them."""
        if (broker := self.cluster.broker.broker) is not None:
            self.history.dead_letters = dead_letters(broker, self.history.groups)
        for checker in checkers or ALL:
            for violation in checker(self.history):
                raise violation

    def timeline(self) -> str:
        return "\n".join(lines(self.history))


class Within:
    """A deadline in virtual time."""

    def __init__(self, story: Story, length: str) -> None:
        self._story = story
        self._length = length

    async def until(self, condition: Condition) -> None:
        """Wait for it; a Violation that names it where it does not come about in time."""
        story = self._story
        end = story.now + to_ms(self._length) / 1000
        while not condition(story):
            if story.now >= end:
                name = getattr(condition, "__name__", repr(condition)).replace("_", " ")
                raise Violation(name, f"not within {self._length}", story.now)
            await asyncio.sleep(LOOK_EACH_S)


def all_handled(story: Story) -> bool:
    """Everything that was sent is finished and committed, retries and all."""
    sent = {fact.message_id for fact in story.history.of(Sent)}
    if not story.cluster.is_drained() or not sent:
        return False
    story.history.is_drained = True
    return True


def all_balanced(story: Story) -> bool:
    """Every living application has joined and knows its queues."""
    apps = [machine.app for machine in story.cluster.apps if machine.is_steady and machine.app is not None]
    # One that is not ready may be balanced all the same: it may not get rid of what failed already.
    return all(app.is_ready or _is_balanced(app.snapshot()) for app in apps)


def _is_balanced(picture: Snapshot) -> bool:
    return bool(picture.groups) and all(group.is_balanced for group in picture.groups)


def tell(scenario: Callable[[Story], Awaitable[T]], cluster: Cluster | None = None) -> T:
    """Tell a story to its end, in virtual time."""
    chosen = cluster or Cluster(apps=0)

    async def play(world: Cluster) -> T:
        return await scenario(Story(world))

    return chosen.run(play)
