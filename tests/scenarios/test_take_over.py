"""Who takes over whose queues, and what becomes of the messages."""

from __future__ import annotations

from collections import Counter

from framework.testing.checkers import commit_never_passes_a_gap, nothing_lost, offsets_forward
from framework.testing.story import Story, all_handled


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
