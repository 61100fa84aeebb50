"""Failed messages whose broker refuses to take them back: no copy is lost or made twice, no handler runs again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from framework.broker.node import Node
from framework.model.snapshot import QueueSnapshot
from framework.testing.sim.machine import Machine
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Finished, Said
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

RETRY_TOPIC = "%RETRY%billing"
READ, READ_WRITE = 4, 6


def failing(fail_rate: float = 0.2) -> Cluster:
    return Cluster(apps=0, workload=Workload(groups=(GroupLoad(fail_rate=fail_rate, poison_rate=0.05),)))


def node(story: Story) -> Node:
    broker = story.cluster.broker.broker
    assert broker is not None
    return broker.nodes[0]


async def stock(story: Story, count: int) -> None:
    """Send so many, and then close the broker for writing; the group's retry topic is there."""
    await story.start_apps(1)
    await story.leave(story.cluster.apps[0])
    await story.send("orders", count)
    node(story).switches.put("brokerPermission", "4")


def permit(story: Story, perm: int) -> None:
    """Set the retry topic's own permission."""
    rules = node(story).rules
    topic = rules.topics.get(RETRY_TOPIC)
    assert topic is not None
    rules.add(replace(topic, perm=perm))


def queues(machine: Machine) -> list[QueueSnapshot]:
    assert machine.app is not None
    (group,) = machine.app.snapshot().groups
    return list(group.queues)


def cannot_send_back(machine: Machine) -> int:
    assert machine.app is not None
    (group,) = machine.app.snapshot().groups
    return group.cannot_send_back


def is_ready(machine: Machine) -> bool:
    return machine.app is not None and machine.app.is_ready


def is_stuck(story: Story) -> bool:
    return any("cannot send back" in (queue.reason or "") for app in story.cluster.apps for queue in queues(app))


def test_a_broker_that_is_closed_for_writing_takes_copies_as_messages() -> None:
    async def scenario(story: Story) -> None:
        await stock(story, 100)
        await story.start_apps(2)
        await story.within("5m").until(all_handled)
        assert all(is_ready(app) for app in story.cluster.apps)
        story.check()
        assert any(fact.event == "send-back failed" and fact.fields["to"] for fact in story.history.of(Said))

    tell(scenario, failing())


def test_while_nothing_takes_copies_other_messages_go_on_and_no_handler_runs_again() -> None:
    async def scenario(story: Story) -> None:
        await stock(story, 100)
        permit(story, READ)
        (app,) = await story.start_apps(1)
        await story.within("1m").until(is_stuck)
        await story.sleep("2m")
        stuck = cannot_send_back(app)
        assert not is_ready(app)
        assert stuck > 0
        assert 100 - stuck == len(set(story.handled())), "everything else is handled"
        runs = Counter(fact.message_id for fact in story.history.of(Finished))
        assert {1} == set(runs.values()), "only the sending is tried again"

        permit(story, READ_WRITE)
        await story.within("6m").until(all_handled)
        assert not is_stuck(story)
        assert is_ready(app)
        story.check()

    tell(scenario, failing())


def test_whoever_stops_meanwhile_does_not_wait_and_its_successor_is_given_the_message() -> None:
    async def scenario(story: Story) -> None:
        await stock(story, 40)
        permit(story, READ)
        (app,) = await story.start_apps(1)
        await story.within("1m").until(is_stuck)
        await story.sleep("1m")
        before = story.now
        await story.leave(app)
        assert story.now - before < 1
        permit(story, READ_WRITE)
        await story.start_apps(1)
        await story.within("5m").until(all_handled)
        story.check()

    tell(scenario, failing())


async def fail_through_a_long_outage(story: Story) -> None:
    """They fail while no broker is there; whoever sends their copies waits for minutes between two tries by its end."""
    (app,) = await story.start_apps(1)
    await story.send("orders", 20)
    await story.sleep("1s")
    story.cut_off(app, "20m")
    await story.sleep("20m")
    assert cannot_send_back(app) > 0
    await story.within("40s").until(lambda _: not cannot_send_back(app))
    await story.within("2m").until(all_handled)
    story.check()


def test_what_failed_in_a_long_outage_is_sent_as_soon_as_a_broker_is_there() -> None:
    slow = GroupLoad(pauses_s=(3.0,), concurrency=20, fail_rate=0.3, poison_rate=0.05)
    tell(fail_through_a_long_outage, Cluster(apps=0, workload=Workload(groups=(slow,))))
