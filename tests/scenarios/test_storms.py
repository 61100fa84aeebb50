"""Groups under everything that may move queues: flappers, restarts of all at once, members whose views differ."""

from __future__ import annotations

from typing import Any

import pytest

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.testing.errors import Violation
from framework.wire.bodies.group import ConsumerList
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.scenarios.test_calm import PLAIN, begin, flapping, members, shared
from tests.simulation.checkers import (
    little_moves,
    no_storm,
    nothing_lost,
    nothing_pauses,
    order_kept,
    views_may_differ,
)
from tests.simulation.checkers.no_storm import STORM
from tests.simulation.checkers.views_may_differ import SPLIT
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Reassigned
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

QUICK = GroupLoad(fail_rate=0.0, poison_rate=0.0, pauses_s=(0.002, 0.005), concurrency=8)
IN_ORDER = GroupLoad("inventory", orderly=True, fail_rate=0.0, poison_rate=0.0, pauses_s=(0.05, 0.1))


# What stays goes on


async def comings_and_goings(story: Story) -> None:
    """Two members become four and two again, and what stays with its owner does not wait."""
    first, second = await story.start_apps(2)
    sending = story.cluster.loop.create_task(story.send("orders", 800, over="16s"), name="sending")
    for _ in range(2):
        await story.sleep("2s")
        await story.start_apps(1)
    for machine in (first, second):
        await story.sleep("3s")
        await story.leave(machine)
    await sending
    await story.within("60s").until(all_handled)
    story.check(lambda history: nothing_pauses(history, most_s=0.1), nothing_lost)


def calm(*mutants: str) -> Cluster:
    cluster = Cluster(apps=0, workload=Workload(queues=12, groups=(QUICK,)), mutants=mutants)
    cluster.history.is_calm = True
    return cluster


def test_a_queue_that_stays_with_its_owner_does_not_pause() -> None:
    tell(comings_and_goings, calm())


def test_a_round_that_takes_everything_anew_is_noticed() -> None:
    with pytest.raises(Violation, match="nothing pauses"):
        tell(comings_and_goings, calm("queues that stay are left alone"))


# Flappers move little


async def three_minutes_of_flapping(story: Story) -> None:
    """1 of 5 is killed each 5 s."""
    await flapping(story, up_s=4.5, down_s=0.5, minutes=3)
    story.check(little_moves)


def test_a_flapper_moves_little() -> None:
    tell(three_minutes_of_flapping, members(5, named=False, protect=True))


def test_a_flapper_that_does_not_wait_is_noticed() -> None:
    mutants = ("a flapper waits before it joins",)
    with pytest.raises(Violation, match="came and went"):
        tell(three_minutes_of_flapping, members(5, named=False, protect=True, mutants=mutants))


# All at once


async def everybody_starts(story: Story, *, count: int, queues: int, jitter_s: float) -> None:
    machines = await begin(story, count, queues)
    await story.sleep("5s")
    for machine in machines:
        story.crash(machine)
    story.cluster.recorder.fault(STORM, "everybody", f"{jitter_s:g}")
    for machine in machines:
        story.restart(machine)
    await story.within(f"{jitter_s + 5:g}s").until(lambda story: shared(story, queues))
    await story.sleep("10s")
    story.check(no_storm)


async def forty(story: Story) -> None:
    await everybody_starts(story, count=40, queues=80, jitter_s=2)


@pytest.mark.parametrize("jitter_s", [0, 2])
def test_forty_members_that_start_at_once_settle_within_five_seconds(jitter_s: int) -> None:
    async def scenario(story: Story) -> None:
        await everybody_starts(story, count=40, queues=80, jitter_s=jitter_s)

    tell(scenario, members(80, named=False, start_jitter=f"{jitter_s}s"))


@pytest.mark.slow
def test_members_that_do_not_wait_for_each_other_are_noticed() -> None:
    """Where starts are spread each second of them is a round, and queues are handed on from one to the next."""
    mutants = ("members that start together wait for each other",)
    with pytest.raises(Violation, match="no storm"):
        tell(forty, members(80, named=False, mutants=mutants, start_jitter="2s"))


# Views that differ


async def split_view(story: Story) -> list[str]:
    """For a while one of two members is told that it is alone; the queues that it took in passing."""
    a, b = await begin(story, 2, 4)
    assert a.app is not None
    broker = story.cluster.broker.broker
    assert broker is not None
    alone = ConsumerList(consumer_ids=(a.app.member,)).encode()

    def is_a(request: Request) -> bool:
        return story.cluster.recorder.name_of(request.client.peer).startswith(f"{a.name}.")

    before = set(story.queues_of(b, "orders"))
    undo = broker.intercept(
        Interceptor(
            code=RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            answer=RemotingCommand(ResponseCode.SUCCESS, body=alone),
            times=None,
            when=is_a,
        )
    )  # fmt: skip
    story.cluster.recorder.fault(SPLIT, a.name)
    await story.send("orders", 150, over="30s")
    undo()
    await story.within("3m").until(all_handled)
    await story.within("30s").until(lambda story: shared(story, 4))
    story.check(nothing_lost, order_kept, views_may_differ)
    return [
        queue
        for fact in story.history.of(Reassigned)
        for queue in fact.gained
        if fact.who.startswith(a.name) and queue in before
    ]


def divided(load: GroupLoad, *mutants: str, **settings: Any) -> Cluster:
    return Cluster(apps=0, workload=Workload(queues=4, groups=(load,), settings=settings), mutants=mutants)


@pytest.mark.parametrize("load", [PLAIN, IN_ORDER], ids=["concurrent", "in order"])
def test_members_whose_views_differ_lose_nothing_and_keep_order(load: GroupLoad) -> None:
    assert len(tell(split_view, divided(load))) >= 2, "so that both had the same queues"


def test_a_member_that_minds_no_refusal_is_noticed() -> None:
    with pytest.raises(Violation, match=r"order kept|views may differ"):
        tell(split_view, divided(IN_ORDER, "a lock that is refused is not had"))
