"""Who takes over whose queues, and what becomes of the messages."""

from __future__ import annotations

import asyncio
from collections import Counter

from framework.broker.store.topics import Topic
from tests.simulation.checkers import commit_never_passes_a_gap, nothing_lost, offsets_forward
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload


async def test_a_crashed_member_s_queues_are_taken_over(story: Story) -> None:
    """Messages of a crashed consumer are handled by the survivor, none lost."""
    a, b = await story.start_apps(2)
    await story.send("orders", 200)
    story.crash(a)
    await story.within("2m").until(all_handled)

    assert {b} == story.owners("orders")
    story.check(nothing_lost, offsets_forward, commit_never_passes_a_gap)


async def test_a_member_that_leaves_in_order_repeats_nothing(story: Story) -> None:
    """It confirms its offsets before it goes, so whoever comes next begins behind them."""
    a, b = await story.start_apps(2)
    await story.send("orders", 100)
    await story.leave(a)
    await story.send("orders", 100)
    await story.within("1m").until(all_handled)

    assert {b} == story.owners("orders")
    assert max(Counter(story.handled()).values()) == 1
    story.check()


def test_what_comes_while_nobody_is_there_is_not_skipped_by_a_group_that_was() -> None:
    """It begins at the end of an empty queue, which is 0; the next member must find that, and not begin at the end."""

    async def scenario(story: Story) -> None:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        broker = story.cluster.broker.broker
        assert broker is not None
        broker.nodes[0].rules.add(Topic(name="orders", read_queues=4, write_queues=4))
        (app,) = await story.start_apps(1)
        await story.sleep("2s")
        await story.leave(app)
        sent = await story.send("orders", 40)
        await story.start_apps(1)
        await story.within("1m").until(all_handled)
        assert sent == len(set(story.handled()))

    load = GroupLoad(fail_rate=0.0, poison_rate=0.0)
    tell(scenario, Cluster(apps=0, workload=Workload(groups=(load,), settings={"start": "last"})))


async def test_a_member_that_falls_silent_is_replaced(story: Story) -> None:
    """No connection ends when a machine loses its power: only silence tells, after two minutes at most."""
    a, b = await story.start_apps(2)
    story.cut_power(a)
    await story.send("orders", 100)
    await story.within("3m").until(all_handled)

    assert {b} == story.owners("orders")
    story.check(nothing_lost, commit_never_passes_a_gap)


async def test_a_stopped_member_goes_on_where_it_was(story: Story) -> None:
    a, b = await story.start_apps(2)
    story.stop(a, "20s")
    await story.send("orders", 100, over="10s")
    await story.within("2m").until(all_handled)

    assert {a, b} == story.owners("orders")
    story.check(nothing_lost, commit_never_passes_a_gap)


async def test_a_broker_that_restarts_has_everything(story: Story) -> None:
    """What was acknowledged is there, and members find the broker again by themselves."""
    apps = await story.start_apps(2)
    await story.send("orders", 100)
    await story.restart_broker()
    assert await story.send("orders", 100) >= 90
    await story.within("2m").until(all_handled)

    assert set(apps) == story.owners("orders")
    story.check(nothing_lost, commit_never_passes_a_gap)


async def test_a_newcomer_gets_its_share(story: Story) -> None:
    (a,) = await story.start_apps(1)
    await story.send("orders", 20)
    (b,) = await story.start_apps(1)
    await story.send("orders", 20)
    await story.within("1m").until(all_handled)

    assert {a, b} == story.owners("orders")
    assert 2 == len(story.queues_of(b, "orders"))
    story.check(nothing_lost, offsets_forward)


async def test_a_member_cut_off_loses_nothing(story: Story) -> None:
    a, _ = await story.start_apps(2)
    story.cut_off(a, "40s")
    await story.send("orders", 100, over="20s")
    await story.within("3m").until(all_handled)

    story.check(nothing_lost, commit_never_passes_a_gap)


async def test_rebalances_leave_no_task_behind(story: Story) -> None:
    def tasks() -> list[str]:
        """All but those that a process leaves which has ended: they are never run again."""
        return sorted(name for task in asyncio.all_tasks() if not (name := task.get_name()).endswith(" stop"))

    (first,) = await story.start_apps(1)
    await story.send("orders", 10)
    await story.within("1m").until(all_handled)
    await story.sleep("5s")
    before = tasks()
    for _ in range(6):
        (second,) = await story.start_apps(1)
        await story.within("5s").until(lambda story: len(story.owners("orders")) == 2)
        await story.leave(second)
        await story.within("10s").until(lambda story: len(story.queues_of(first, "orders")) == 4)

    def the_same_run_as_before(_: Story) -> bool:
        return tasks() == before

    await story.within("1m").until(the_same_run_as_before)
