"""Messages that a group does not want any more are settled without its handler; retries are handled all the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

from framework.testing.sim.machine import Machine
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Finished, Said
from tests.simulation.story import Story, tell
from tests.simulation.workload import GroupLoad, Workload


def skipping(poison_rate: float = 0.0, **settings: Any) -> Cluster:
    load = GroupLoad(fail_rate=0.0, poison_rate=poison_rate)
    return Cluster(apps=0, workload=Workload(groups=(load,), settings=settings))


def skipped(machine: Machine) -> int:
    assert machine.app is not None
    (group,) = machine.app.snapshot().groups
    return group.skipped


def is_drained(story: Story) -> bool:
    return story.cluster.is_drained()


async def stock(story: Story, count: int) -> None:
    """So many that wait for a group that was there once."""
    (app,) = await story.start_apps(1)
    await story.leave(app)
    await story.send("orders", count)


def test_what_is_too_old_is_settled_without_its_handler() -> None:
    async def scenario(story: Story) -> None:
        await stock(story, 100)
        await story.sleep("2m")
        (app,) = await story.start_apps(1)
        await story.send("orders", 10)
        await story.within("1m").until(is_drained)
        assert (100, 10) == (skipped(app), len(story.handled()))
        await story.send("orders", 10)  # its end is said with the next pull that brings something
        await story.within("1m").until(is_drained)
        said = Counter(fact.event for fact in story.history.of(Said))
        assert said["skipping started"] == said["skipping ended"] == 4, "once a queue"

    tell(scenario, skipping(skip_older_than="1m"))


def test_retries_of_what_is_handled_are_never_skipped() -> None:
    """Only the newest message of each queue is handled; each fails to its end, however many do so beside it."""

    async def scenario(story: Story) -> None:
        await stock(story, 100)
        (app,) = await story.start_apps(1)
        await story.within("3m").until(is_drained)
        attempts = Counter(fact.message_id for fact in story.history.of(Finished))
        assert [4] * 4 == list(attempts.values())
        assert 96 == skipped(app)

    tell(scenario, skipping(poison_rate=1.0, skip_backlog_over=1))
