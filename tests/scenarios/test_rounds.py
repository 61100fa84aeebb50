"""When queues are divided anew though nobody gave notice: a new connection, a group that goes on, a new route."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace

from framework import App
from framework.broker.intercept import Interceptor
from framework.broker.node import Node
from framework.broker.request import Request
from framework.broker.store.topics import Topic
from framework.testing.cluster import BROKER_HOST
from framework.wire.codes import RequestCode
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said
from tests.simulation.story import Story, tell

AT_ONCE = "1100ms"  # a second may be left until the next round, for rounds keep their distance


class Quiet:
    """One member of a group of which the broker gives no notice; what it asks the broker is written down."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        """When the members of the group were asked for, once a round, and once a look in between."""
        self.rounds: list[float] = []
        self.beats: list[float] = []

    async def open(self, story: Story) -> tuple[App, Node]:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        broker = story.cluster.broker.broker
        assert broker is not None
        (node,) = broker.nodes
        node.rules.add(Topic(name="orders", read_queues=4, write_queues=4))
        (machine,) = await story.start_apps(1)
        assert machine.app is not None
        node.rules.put_group(replace(node.rules.group("billing"), notifies_members=False))

        def noted(instants: list[float]) -> Callable[[Request], bool]:
            def note(_: Request) -> bool:
                instants.append(story.now)
                return False

            return note

        for code, instants in (
            (RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.asked),
            (RequestCode.HEART_BEAT, self.beats),
        ):
            broker.intercept(Interceptor(code=code, times=None, when=noted(instants)))
        (group,) = machine.app._groups
        turn = group.rebalance._round

        def noted_turn(topics: Sequence[str]) -> Coroutine[None, None, None]:
            self.rounds.append(story.now)
            return turn(topics)

        group.rebalance._round = noted_turn  # type: ignore[method-assign]
        await story.sleep("1m")
        return machine.app, node

    def forget(self) -> None:
        """Only what is asked from now on counts."""
        self.asked.clear()
        self.rounds.clear()
        self.beats.clear()

    def had_a_round(self, _: Story) -> bool:
        return bool(self.rounds)


def test_a_round_follows_each_new_connection_and_a_burst_of_them_is_one() -> None:
    async def scenario(story: Story) -> None:
        quiet = Quiet()
        await quiet.open(story)
        for _ in range(3):
            quiet.forget()
            broken = 0
            for _ in range(10):
                broken += story.cluster.network.break_connections(BROKER_HOST, 1.0)
                await story.sleep("100ms")
            assert broken >= 3, "those for requests and for pulls, and then new ones"
            await story.within("10s").until(lambda _: bool(quiet.beats))
            await story.within(AT_ONCE).until(quiet.had_a_round)
            await story.sleep("4s")
            assert len(quiet.rounds) <= 3, "rounds were merged"
            await story.sleep("17s")

    tell(scenario, Cluster(apps=0))


def test_a_heartbeat_on_a_connection_that_is_known_asks_for_none() -> None:
    async def scenario(story: Story) -> None:
        quiet = Quiet()
        await quiet.open(story)
        await story.sleep("10m")
        assert len(quiet.beats) >= 20
        # Of eleven minutes each twenty seconds one, for both topics, and each five seconds a look.
        assert len(quiet.rounds) <= 11 * 3 * 1.2
        assert len(quiet.asked) <= 11 * (3 * 1.2 + 12 * 1.2)

    tell(scenario, Cluster(apps=0))


def test_a_round_follows_when_a_paused_group_goes_on() -> None:
    async def scenario(story: Story) -> None:
        quiet = Quiet()
        app, _ = await quiet.open(story)
        for _ in range(5):
            app.pause("billing")
            await story.sleep("3s")
            quiet.forget()
            app.resume("billing")
            await story.within(AT_ONCE).until(quiet.had_a_round)
            await story.sleep("2s")

    tell(scenario, Cluster(apps=0))


def test_a_round_follows_a_new_route() -> None:
    async def scenario(story: Story) -> None:
        quiet = Quiet()
        app, node = await quiet.open(story)
        before = len(app.snapshot().groups[0].queues)
        node.rules.add(Topic(name="orders", read_queues=12, write_queues=12))
        await story.within("1m").until(lambda _: said(story))
        await story.within(AT_ONCE).until(lambda _: len(app.snapshot().groups[0].queues) > before)

    def said(story: Story) -> bool:
        return any(fact.event == "route changed" and fact.fields["queues"] == 12 for fact in story.history.of(Said))

    tell(scenario, Cluster(apps=0))
