"""The box's disk is full for a while: what it said before and after holds, also behind a restart."""

from __future__ import annotations

from collections import Counter

from tests.simulation.broker_view import stored_offset
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Started
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload


def offsets(story: Story) -> dict[str, int | None]:
    """The group's, as the box that runs now says."""
    broker = story.cluster.broker.broker
    assert broker is not None
    queues = [f"orders@broker-a:{number}" for number in range(story.cluster.workload.queues)]
    return {queue: stored_offset(broker, "billing", queue) for queue in queues}


async def ended_on_a_full_disk(story: Story) -> None:
    """Their offsets cannot be saved; they are when something else is written, though nobody says them again."""
    (app,) = await story.start_apps(1)
    await story.send("orders", 20)
    await story.sleep("1s")
    disk = story.cluster.broker.disk
    disk.is_full = True
    await story.sleep("10s")  # what the box refuses is the group's first offset, so each queue's waits for another's
    assert 20 == len(story.handled())
    said = offsets(story)
    assert 20 == sum(offset or 0 for offset in said.values())

    disk.is_full = False
    story.stop(app, "10s")
    await story.send("orders", 1)
    await story.sleep("1s")
    await story.restart_broker()
    assert said == offsets(story)

    story.crash(app)
    story.restart(app)
    await story.within("2m").until(all_handled)
    await story.sleep("5s")
    assert {1} == set(Counter(fact.message_id for fact in story.history.of(Started)).values())
    story.check()


def test_offsets_that_did_not_fit_are_saved_when_there_is_room() -> None:
    slow = GroupLoad(pauses_s=(3.0,), concurrency=20, fail_rate=0.0, poison_rate=0.0)
    tell(ended_on_a_full_disk, Cluster(apps=0, workload=Workload(groups=(slow,))))
