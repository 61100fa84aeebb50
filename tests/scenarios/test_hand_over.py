"""Members that come and go in order repeat nothing, where what is let go is announced."""

from __future__ import annotations

import pytest

from framework.testing.checkers import calm_runs_do_not_repeat, nothing_lost
from framework.testing.cluster import Cluster
from framework.testing.errors import Violation
from framework.testing.history import Started
from framework.testing.story import Story, all_handled, tell
from framework.testing.workload import GroupLoad, Workload


def busy(progress: str, mutants: tuple[str, ...] = ()) -> Cluster:
    """Handlers that are nearly always at work, so that a queue is hardly ever let go at rest."""
    load = GroupLoad(pauses_s=(0.05, 0.2, 0.4), fail_rate=0.0, poison_rate=0.0, concurrency=8, progress=progress)
    cluster = Cluster(apps=0, workload=Workload(queues=8, groups=(load,), drain="5s"), mutants=mutants)
    cluster.history.is_calm = True
    return cluster


async def comings_and_goings(story: Story) -> int:
    """Two members become four and two again, under load; how many messages were started twice."""
    first, second = await story.start_apps(2)
    sending = story.cluster.loop.create_task(story.send("orders", 500, over="20s"), name="sending")
    await story.sleep("4s")
    await story.start_apps(2)
    await story.sleep("4s")
    for machine in (first, second):
        await story.leave(machine)
        await story.sleep("3s")
    await sending
    await story.within("60s").until(all_handled)
    started = [(fact.group, fact.message_id) for fact in story.history.of(Started)]
    story.check(nothing_lost, calm_runs_do_not_repeat)
    return len(started) - len(set(started))


def test_joins_and_leaves_under_load_repeat_nothing() -> None:
    assert 0 == tell(comings_and_goings, busy("topic"))


def test_what_is_not_awaited_is_repeated() -> None:
    with pytest.raises(Violation, match="let the queue go"):
        tell(comings_and_goings, busy("topic", mutants=("a hand-over is awaited",)))


def test_without_announcements_a_join_repeats_what_is_at_work() -> None:
    """So it is with the Java client, and with `progress: none`: the page says so."""
    assert tell(comings_and_goings, busy("none")) > 0
