"""Groups whose subscriptions change in the middle of the stream."""

from __future__ import annotations

from framework.broker.intercept import Interceptor, Lost
from framework.broker.request import Request
from framework.testing.sim.machine import Machine
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.codes import RequestCode
from tests.simulation.story import Story, all_handled


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


async def test_no_rebalance_raises_a_subscription_s_version_and_another_subscription_does(story: Story) -> None:
    """Java raises it whenever queues move, and its own pulls are refused for it until its next heartbeat is there."""
    (first,) = await story.start_apps(1)
    await story.send("orders", 10)
    broker, app = story.cluster.broker.broker, first.app
    assert broker is not None
    assert app is not None
    versions: list[int] = []

    def hear(request: Request) -> bool:
        heartbeat = Heartbeat.decode(request.command.body)
        if heartbeat.client_id == app.member:
            versions.extend(each.version for group in heartbeat.consumers for each in group.subscriptions)
        return False

    broker.intercept(Interceptor(code=RequestCode.HEART_BEAT, lose=Lost.REQUEST, times=None, when=hear))
    (second,) = await story.start_apps(1)
    await story.within("5s").until(lambda story: {first, second} == story.owners("orders"))
    await story.leave(second)
    await story.sleep("65s")
    assert len(versions) >= 4, "two subscriptions, in two heartbeats at least"
    assert 1 == len(set(versions))

    await subscribe_anew(story, first)
    await story.sleep("65s")
    assert versions[-1] > versions[0]
