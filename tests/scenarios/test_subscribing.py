"""Groups whose subscriptions change in the middle of the stream."""

from __future__ import annotations

from framework.testing.machine import Machine
from framework.testing.story import Story, all_handled


async def subscribe_anew(story: Story, machine: Machine) -> None:
    """The same topic with a handler of its own: its queues are left, and taken anew."""
    app, node = machine.app, machine.node
    assert app is not None
    assert node is not None

    async def act() -> None:
        for each in app.consumers:
            app.subscribe(each)

    await story.cluster.loop.spawn(node, act(), name="subscribe")


async def test_nothing_is_lost_where_members_subscribe_anew_in_the_stream(story: Story) -> None:
    one, two = await story.start_apps(2)
    for machine in (one, two, one):
        await story.send("orders", 40, over="2s")
        await subscribe_anew(story, machine)
    await story.send("orders", 40)
    await story.within("2m").until(all_handled)

    assert {one, two} == story.owners("orders")
    story.check()


async def test_a_member_that_dies_while_it_subscribes_anew_is_taken_over(story: Story) -> None:
    one, two = await story.start_apps(2)
    await story.send("orders", 60)
    await subscribe_anew(story, one)
    story.crash(one)
    await story.within("2m").until(all_handled)

    assert {two} == story.owners("orders")
    story.check()
