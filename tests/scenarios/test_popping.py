"""Groups that pop: each message with one member at a time, and all of them handled, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from framework.broker.answers import refuse
from framework.broker.intercept import Interceptor
from framework.broker.pops import Mode
from framework.declare import Consumer, consumer
from framework.model.message import Message
from framework.model.outcome import DeadLetter, RetryLater
from framework.model.snapshot import GroupSnapshot, QueueSnapshot
from framework.settings.schema import AppSettings
from framework.testing.sim.machine import Machine
from framework.wire.codes import RequestCode
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Finished, Said, Sent, Started
from tests.simulation.story import Story, tell
from tests.simulation.workload import Workload

GROUP = "billing"


class Popping:
    """A group that pops `orders`; `takes` says how long each handler runs, and `answers` what it returns."""

    def __init__(self, *, mutants: tuple[str, ...] = (), drain: str = "5s", **of_group: object) -> None:
        self.takes: Callable[[Message], float] = lambda _: 0.01
        self.answers: Callable[[Message], object] = lambda _: None
        own = {"start": "first", "delivery": "pop", "invisible": "5s", **of_group}
        settings = {"app": {"drain": drain}, "consumers": {GROUP: own}}
        self.cluster = Cluster(
            apps=0, workload=Workload(queues=4), consumers=self._handlers, mutants=mutants,
            settings=AppSettings.model_validate(settings),
        )  # fmt: skip

    def _handlers(self, cluster: Cluster) -> list[Consumer[..., Any]]:
        async def bill(message: Message) -> object:
            cluster.recorder.started(GROUP, message)
            await asyncio.sleep(self.takes(message))
            answer = self.answers(message)
            cluster.recorder.finished(GROUP, message, "ok" if answer is None else "failed")
            return answer

        return [consumer(topic="orders", group=GROUP)(bill)]

    @property
    def starts(self) -> Counter[str]:
        return Counter(fact.message_id for fact in self.cluster.history.of(Started))


def sent(story: Story) -> set[str]:
    return {fact.message_id for fact in story.history.of(Sent)}


def held(story: Story) -> int:
    broker = story.cluster.broker.broker
    assert broker is not None
    (count,) = broker.nodes[0].store.database.reading.execute("SELECT count(*) FROM popped").fetchone()
    return int(count)


def all_done(story: Story) -> bool:
    """Everything is handled, and the broker knows."""
    done = {fact.message_id for fact in story.history.of(Finished) if fact.is_ok}
    return bool(done) and done == sent(story) and held(story) == 0


def said(story: Story, event: str) -> list[Said]:
    return [fact for fact in story.history.of(Said) if fact.event == event]


def test_members_share_a_topic_without_dividing_its_queues() -> None:
    popping = Popping()

    async def scenario(story: Story) -> None:
        members = await story.start_apps(6)
        await story.send("orders", 600)
        await story.within("60s").until(all_done)
        assert {1} == set(popping.starts.values()), "each once"
        assert all(story.queues_of(each, "orders") == ["orders@broker-a:-1"] for each in members)
        pictures = [each.app.snapshot().groups[0] for each in members if each.app is not None]
        assert [0] * 6 == [picture.lag for picture in pictures]
        assert 6 == len([picture for picture in pictures if picture.handled]), "more members than queues, all at work"

    tell(scenario, popping.cluster)


@pytest.mark.parametrize("mutants", [(), ("what is held is renewed",)])
def test_a_long_handler_is_not_repeated(mutants: tuple[str, ...]) -> None:
    """It runs for ten times the invisible time."""
    popping = Popping(mutants=mutants)
    popping.takes = lambda _: 50.0

    async def scenario(story: Story) -> None:
        await story.start_apps(2)
        await story.send("orders", 30)
        await story.sleep("120s" if mutants else "0s")
        if not mutants:
            await story.within("200s").until(all_done)

    tell(scenario, popping.cluster)
    assert (set(popping.starts.values()) == {1}) is not bool(mutants)


def test_what_a_killed_member_held_comes_to_another() -> None:
    popping = Popping()
    popping.takes = lambda _: 0.5

    async def scenario(story: Story) -> None:
        first, _ = await story.start_apps(2)
        await story.send("orders", 300)
        await story.sleep("1s")
        story.crash(first)
        await story.within("120s").until(all_done)
        again = [count for count in popping.starts.values() if count > 1]
        assert 0 < len(again) <= 20, "what its handlers were at, and nothing that had ended long before"

    tell(scenario, popping.cluster)


def test_a_member_that_leaves_gives_back_what_it_has_not_handled() -> None:
    """Long before the invisible time is over."""
    popping = Popping(invisible="5m", concurrency=2, drain="3s")
    popping.takes = lambda _: 0.5

    async def scenario(story: Story) -> None:
        first, _ = await story.start_apps(2)
        await story.send("orders", 100)
        await story.sleep("2s")
        await story.leave(first)
        await story.within("60s").until(all_done)
        assert {1} == set(popping.starts.values())

    tell(scenario, popping.cluster)


def test_a_message_that_fails_comes_again_and_at_last_among_the_dead_letters() -> None:
    """Java's client has no dead letters on this way."""
    popping = Popping(max_retries=2)
    attempts: list[int] = []

    def fail(message: Message) -> object:
        attempts.append(message.attempt)
        return RetryLater("2s")

    popping.answers = fail

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("orders", 1)
        await story.within("60s").until(lambda told: len(said(told, "message dead-lettered")) == 1)
        await story.within("10s").until(lambda told: held(told) == 0)
        await story.sleep("30s")
        broker = story.cluster.broker.broker
        assert broker is not None
        assert broker.nodes[0].queue(f"%DLQ%{GROUP}", 0) is not None

    tell(scenario, popping.cluster)
    assert [1, 2, 3] == attempts


def test_a_dead_letter_that_is_asked_for_is_made_at_once() -> None:
    popping = Popping()
    popping.answers = lambda _: DeadLetter("of no use")

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("orders", 3)
        await story.within("20s").until(lambda told: len(said(told, "message dead-lettered")) == 3)
        await story.within("20s").until(lambda told: held(told) == 0)

    tell(scenario, popping.cluster)
    assert {1} == set(popping.starts.values())


def test_a_broker_that_is_killed_keeps_who_holds_what() -> None:
    popping = Popping()
    popping.takes = lambda _: 0.3

    async def scenario(story: Story) -> None:
        await story.start_apps(2)
        await story.send("orders", 200)
        await story.sleep("1s")
        await story.restart_broker()
        await story.within("120s").until(all_done)

    tell(scenario, popping.cluster)


def test_a_group_is_switched_to_pop_and_back_while_it_runs() -> None:
    """By an administrator: `mqadmin setConsumeMode`."""
    popping = Popping(delivery="broker")

    async def scenario(story: Story) -> None:
        (member,) = await story.start_apps(1)
        broker = story.cluster.broker.broker
        assert broker is not None
        modes = broker.nodes[0].pops.modes
        await story.send("orders", 20)
        await story.within("40s").until(lambda told: len(told.queues_of(member, "orders")) == 4)
        modes.put(GROUP, "orders", Mode("POP"))
        await story.within("60s").until(lambda told: told.queues_of(member, "orders") == ["orders@broker-a:-1"])
        await story.send("orders", 50)
        await story.within("60s").until(all_done)
        modes.put(GROUP, "orders", Mode("PULL"))
        await story.within("60s").until(lambda told: len(told.queues_of(member, "orders")) == 4)
        await story.send("orders", 50)
        await story.within("60s").until(all_done)
        assert {1} == set(popping.starts.values())

    tell(scenario, popping.cluster)


def picture(machine: Machine) -> GroupSnapshot:
    assert machine.app is not None
    return machine.app.snapshot().groups[0]


def of_pops(group: GroupSnapshot) -> QueueSnapshot:
    (found,) = (queue for queue in group.queues if queue.place.number == -1)
    return found


def test_a_stuck_message_holds_up_no_other_and_is_all_that_lags() -> None:
    """Neither by the rest of its pop, nor by what was handled behind it."""
    popping = Popping(concurrency=4, cache_count=12)
    stuck: list[str] = []

    def takes(message: Message) -> float:
        if not stuck:
            stuck.append(message.message_id)
        return 3_600.0 if message.message_id in stuck else 0.05

    popping.takes = takes

    async def scenario(story: Story) -> None:
        (member,) = await story.start_apps(1)
        await story.send("orders", 200)
        await story.within("60s").until(lambda told: len(set(told.handled())) == 199)
        await story.sleep("20s")
        group = picture(member)
        assert (1, 1) == (group.lag, group.running)
        assert group.paces["orders"].pulled_a_second > 0

    tell(scenario, popping.cluster)


def test_a_member_holds_no_more_than_its_bound() -> None:
    """What it holds, no other can handle."""
    popping = Popping(concurrency=4, cache_count=12)
    popping.takes = lambda _: 1.0
    most: list[int] = []

    async def scenario(story: Story) -> None:
        await story.start_apps(2)
        await story.send("orders", 100)

        def look(told: Story) -> bool:
            most.append(held(told))
            return all_done(told)

        await story.within("60s").until(look)

    tell(scenario, popping.cluster)
    assert 12 < max(most) <= 24


def test_what_a_paused_member_has_not_started_comes_to_the_others() -> None:
    """Long before the invisible time is over; what its handlers are at ends there."""
    popping = Popping(invisible="5m", concurrency=2)
    popping.takes = lambda _: 1.0

    async def scenario(story: Story) -> None:
        paused, _ = await story.start_apps(2)
        await story.send("orders", 60)
        await story.within("10s").until(lambda _: len(popping.starts) >= 4)
        assert paused.app is not None
        paused.app.pause(GROUP)
        await story.within("60s").until(all_done)
        assert {1} == set(popping.starts.values()), "each once"
        assert 0 == picture(paused).lag
        paused.app.resume(GROUP)
        await story.send("orders", 60)
        await story.within("60s").until(all_done)
        assert picture(paused).handled > 10

    tell(scenario, popping.cluster)


def test_what_is_too_many_for_a_smaller_concurrency_comes_to_the_others() -> None:
    popping = Popping(invisible="5m", concurrency=100)
    popping.takes = lambda _: 5.0

    async def scenario(story: Story) -> None:
        smaller, _ = await story.start_apps(2)
        await story.send("orders", 600)
        await story.within("10s").until(lambda _: len(popping.starts) >= 200)
        assert smaller.app is not None
        smaller.app.resize(GROUP, 1)
        await story.sleep("10s")
        assert of_pops(picture(smaller)).messages <= 96
        await story.within("10m").until(all_done)
        assert {1} == set(popping.starts.values())

    tell(scenario, popping.cluster)


def test_what_waits_for_the_rate_says_so_and_is_not_repeated() -> None:
    """For longer than the invisible time."""
    popping = Popping(rate="6/m")

    async def scenario(story: Story) -> None:
        members = await story.start_apps(2)
        await story.send("orders", 12)
        await story.within("30s").until(lambda _: len(popping.starts) >= 4)
        assert ["rate", "rate"] == [of_pops(picture(each)).reason for each in members]
        await story.within("120s").until(all_done)
        assert {1} == set(popping.starts.values())

    tell(scenario, popping.cluster)


def test_what_came_back_of_pops_is_handled_though_the_group_pulls_again() -> None:
    """It is switched while members hold messages and others wait for their retry: no pull asks for any of these."""
    popping = Popping(delivery="broker", concurrency=2, drain="3s")
    popping.takes = lambda _: 1.0
    fails: set[str] = set()

    def answer(message: Message) -> object:
        if message.attempt == 1 and int(message.message_id[-2:], 16) % 5 == 0:
            fails.add(message.message_id)
            return RetryLater("60s")
        return None

    popping.answers = answer

    async def scenario(story: Story) -> None:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        broker = story.cluster.broker.broker
        assert broker is not None
        modes = broker.nodes[0].pops.modes
        modes.put(GROUP, "orders", Mode("POP"))
        members = await story.start_apps(2)
        await story.send("orders", 300)
        await story.sleep("8s")
        modes.put(GROUP, "orders", Mode("PULL"))
        await story.within("5m").until(all_done)
        pulled = {queue for each in members for queue in story.queues_of(each, "orders")}
        assert {f"orders@broker-a:{number}" for number in (-2, 0, 1, 2, 3)} == pulled
        assert fails
        assert {each: 2 if each in fails else 1 for each in sent(story)} == popping.starts

    tell(scenario, popping.cluster)


def test_a_broker_that_cannot_pop_is_named_once() -> None:
    """As one of 4.x answers."""
    popping = Popping()

    async def scenario(story: Story) -> None:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        await story.send("orders", 1)
        broker = story.cluster.broker.broker
        assert broker is not None
        old = refuse(3, " request type 200050 not supported")
        broker.intercept(Interceptor(code=RequestCode.POP_MESSAGE, times=None, answer=old))
        await story.start_apps(1)
        await story.sleep("60s")
        (refused,) = said(story, "pop refused")
        assert "older than RocketMQ 5.0" in refused.fields["reason"]

    tell(scenario, popping.cluster)
