"""Each broker makes a group's retry topic at the first heartbeat: soon after, each of its queues has one owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.broker.intercept import Interceptor
from framework.broker.node import Node
from framework.broker.request import Request
from framework.wire.codes import RequestCode
from framework.wire.fields import from_fields
from framework.wire.requests.route import RouteRequest
from tests.simulation.cluster import Cluster
from tests.simulation.faults.brokers import without
from tests.simulation.story import Story, tell
from tests.simulation.workload import GroupLoad, Workload

RETRY_TOPIC = "%RETRY%billing"
LATE_MS = 2_500


def cluster() -> Cluster:
    return Cluster(apps=0, brokers=2, workload=Workload(queues=4, groups=(GroupLoad(),)))


def asks_for_it(request: Request) -> bool:
    return from_fields(RouteRequest, request.command.fields).topic == RETRY_TOPIC


def heartbeat_is_late(node: Node) -> Interceptor:
    """The first member's, so that the second one's makes the topic there."""
    return Interceptor(code=RequestCode.HEART_BEAT, delay_ms=LATE_MS, when=lambda request: request.node is node)


def route_is_old(node: Node, times: int | None = 1) -> Interceptor:
    """It was read just before the broker had told the name server of the topic."""
    found = without(node)
    found.times, found.when = times, asks_for_it
    return found


async def begin(story: Story, late: Callable[[Node], Interceptor]) -> Interceptor:
    await story.cluster.start_broker()
    await story.cluster.start_producer()
    broker = story.cluster.broker.broker
    assert broker is not None
    interceptor = late(broker.nodes[0])
    broker.intercept(interceptor)
    for _ in range(2):
        story.cluster.start_app(story.cluster.add_app())
        await story.sleep("1s")
    return interceptor


def owned(story: Story) -> list[str]:
    return sorted(queue for machine in story.cluster.apps for queue in story.queues_of(machine, RETRY_TOPIC))


@pytest.mark.parametrize("late", [heartbeat_is_late, route_is_old])
def test_each_queue_has_one_owner_before_routes_are_due(late: Callable[[Node], Interceptor]) -> None:
    async def scenario(story: Story) -> None:
        interceptor = await begin(story, late)
        assert interceptor.hits == 1
        await story.within("12s").until(
            lambda story: owned(story) == [f"{RETRY_TOPIC}@broker-a:0", f"{RETRY_TOPIC}@broker-b:0"]
        )

    tell(scenario, cluster())


def test_a_broker_that_never_has_the_topic_is_not_asked_for_on_and_on() -> None:
    async def scenario(story: Story) -> None:
        interceptor = await begin(story, lambda node: route_is_old(node, times=None))
        await story.sleep("10m")
        assert owned(story) == [f"{RETRY_TOPIC}@broker-b:0"]
        assert interceptor.hits <= 2 * (3 + 10 * 2 * 1.2)

    tell(scenario, cluster())
