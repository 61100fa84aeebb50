"""What has ended above a stuck message is not handled again by whoever takes its queue over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.declare import Consumer, consumer
from framework.model.message import Message
from framework.settings.schema import AppSettings
from tests.simulation.checkers import (
    a_flush_covers_what_ended,
    commit_never_passes_a_gap,
    nothing_lost,
    passed_over_was_finished,
    what_was_kept_is_not_repeated,
)
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell
from tests.simulation.workload import Workload

STUCK = 2_101
LAST = 2_200


def article(progress: str, *, folder: str = "/progress") -> tuple[Cluster, list[int], asyncio.Event]:
    """One queue in which 2101 is stuck until the event is set; what was started, from 2101 on."""
    started: list[int] = []
    released = asyncio.Event()

    def handlers(cluster: Cluster) -> list[Consumer[..., Any]]:
        async def bill(message: Message) -> None:
            cluster.recorder.started("billing", message)
            if message.queue_offset >= STUCK:
                started.append(message.queue_offset)
            if message.queue_offset == STUCK:
                await released.wait()
            cluster.recorder.finished("billing", message, "ok")

        return [consumer(topic="orders", group="billing")(bill)]

    settings = AppSettings.model_validate(
        {
            "consumers": {"billing": {"start": "first", "progress": progress}},
            "progress": {"folder": folder},
        }
    )
    cluster = Cluster(apps=0, workload=Workload(queues=1), consumers=handlers, settings=settings)
    return cluster, started, released


def committed(story: Story) -> int | None:
    broker = story.cluster.broker.broker
    assert broker is not None
    return broker.nodes[0].offsets.get("billing", "orders", 0)


async def until_stuck(story: Story, started: list[int]) -> None:
    """2101 is at work, 2102 to 2200 have ended, and a flush has passed."""
    await story.send("orders", LAST + 1)
    await story.within("60s").until(lambda story: len(started) == LAST - STUCK + 1)
    await story.sleep("4s")
    assert STUCK == committed(story)


@pytest.mark.parametrize("progress", ["auto", "topic", "broker", "none"])
def test_the_article_s_case_costs_one_redelivery(progress: str) -> None:
    """Another machine takes over after SIGKILL: 2101 alone comes again, and then the stored offset is 2201."""
    cluster, started, released = article(progress)

    async def scenario(story: Story) -> list[int]:
        a, *_ = await story.start_apps(1)
        await until_stuck(story, started)
        story.crash(a)
        first = len(started)
        cluster.add_app()
        idle = [machine for machine in cluster.apps if machine is not a]
        cluster.start_app(idle[0])
        await story.sleep("30s")
        released.set()
        await story.within("30s").until(lambda story: committed(story) == LAST + 1)
        story.check(nothing_lost, commit_never_passes_a_gap, passed_over_was_finished)
        story.check(a_flush_covers_what_ended, what_was_kept_is_not_repeated)
        return started[first:]

    again = tell(scenario, cluster)
    assert ([STUCK] if progress != "none" else list(range(STUCK, LAST + 1))) == sorted(again)
