"""Groups whose members come and go: what stays where it is, and how soon all is shared again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from framework.broker.store.topics import Topic
from framework.core import limits
from framework.testing.errors import Violation
from framework.testing.sim.machine import Machine
from tests.simulation.checkers import calm_runs_do_not_repeat, nothing_lost, order_kept
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Acquired, Life, Reassigned, Said
from tests.simulation.story import Story, all_balanced, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

PLAIN = GroupLoad(fail_rate=0.0, poison_rate=0.0, pauses_s=(0.02, 0.1))


def members(queues: int, *, mutants: tuple[str, ...] = (), named: bool = True, **app: Any) -> Cluster:
    workload = Workload(queues=queues, groups=(PLAIN,), is_named=named, app=app)
    return Cluster(apps=0, workload=workload, mutants=mutants)


async def begin(story: Story, members: int, queues: int) -> list[Machine]:
    """A topic of so many queues, and members that have them all."""
    await story.cluster.start_broker()
    await story.cluster.start_producer()
    broker = story.cluster.broker.broker
    assert broker is not None
    broker.nodes[0].rules.add(Topic(name="orders", read_queues=queues, write_queues=queues))
    machines = await story.start_apps(members)
    await story.within("10s").until(lambda story: shared(story, queues))
    return machines


def shared(story: Story, queues: int) -> bool:
    """Each queue of the topic is somebody's, and no two members' or one's that is leaving."""
    up = [machine for machine in story.cluster.apps if machine.is_steady]
    owned = [queue for machine in up for queue in story.queues_of(machine, "orders")]
    return len(owned) == queues == len(set(owned))


def places(story: Story) -> dict[str, set[str]]:
    """Queue -> the machines that ever began with it."""
    found: dict[str, set[str]] = {}
    for fact in story.history.of(Acquired):
        if fact.queue.startswith("orders@"):
            found.setdefault(fact.queue, set()).add(fact.who.partition(".")[0])
    return found


def changes(story: Story, group: str = "billing") -> list[float]:
    """When the division of the topic's queues changed, as a member sees it that was always there."""
    return [
        fact.at
        for fact in story.history.of(Said)
        if fact.event == "assignment changed" and fact.fields["topic"] == "orders" and fact.who.startswith("app-2.")
    ]


def each_minute(instants: list[float]) -> int:
    """The most of them within any one minute."""
    return max((sum(at <= other < at + 60 for other in instants) for at in instants), default=0)


async def rolling(story: Story) -> None:
    """Ten members, each of which is restarted under load, one after the other."""
    machines = await begin(story, 10, 20)
    story.history.facts.clear()
    sending = story.cluster.loop.create_task(story.send("orders", 300, over="25s"), name="sending")
    for machine in machines:
        await story.leave(machine)
        await story.sleep("1s")
        story.restart(machine)
        await story.within("5s").until(all_balanced)
    await sending
    await story.within("60s").until(all_handled)
    story.history.is_calm = True
    moved = {queue: who for queue, who in places(story).items() if len(who) > 1}
    if moved:
        raise Violation("a rolling restart moves nothing", f"{moved}", story.now)
    assert not [fact for fact in story.history.of(Reassigned) if fact.lost]
    story.check(nothing_lost, calm_runs_do_not_repeat)


def test_a_rolling_restart_of_members_with_names_moves_no_queue_and_repeats_nothing() -> None:
    tell(rolling, members(20))


def test_a_seat_that_is_forgotten_moves_queues() -> None:
    with pytest.raises(Violation):  # by moves, or by a member that is held back for having come and gone
        tell(rolling, members(20, mutants=("a seat is kept through a restart",)))


def test_a_member_that_stays_away_is_replaced_after_its_grace() -> None:
    async def scenario(story: Story) -> float:
        machines = await begin(story, 3, 6)
        left = story.now
        story.crash(machines[0])
        await story.within("30s").until(lambda story: shared(story, 6))
        return story.now - left

    assert 10.0 <= tell(scenario, members(6)) <= 12.0


def test_who_joins_meanwhile_counts_the_seats_that_others_keep() -> None:
    """It has never seen the one that is away, and asks who has."""

    async def scenario(story: Story) -> None:
        machines = await begin(story, 3, 12)
        story.crash(machines[0])
        await story.sleep("1s")
        late = story.cluster.add_app()
        story.cluster.start_app(late)
        await story.sleep("4s")
        assert 3 == len(story.queues_of(late, "orders"))  # a quarter, as of four members
        up = [machine for machine in story.cluster.apps if machine.is_steady]
        owned = [queue for machine in up for queue in story.queues_of(machine, "orders")]
        assert len(owned) == len(set(owned)) == 9
        story.restart(machines[0])
        await story.within("5s").until(lambda story: shared(story, 12))

    tell(scenario, members(12))


@pytest.mark.parametrize("leaves", [True, False])
def test_who_joins_counts_also_the_seat_of_one_whom_nobody_has_missed_yet(leaves: bool) -> None:
    """Members look at the lists once a second at most: the only one that can be asked had looked just before."""

    async def scenario(story: Story) -> None:
        machines = await begin(story, 3, 12)
        await story.sleep("5s")
        await story.leave(machines[1])
        await story.sleep("300ms")
        assert machines[0].app is not None
        assert 1 == len(machines[0].app.snapshot().groups[0].absent)
        if leaves:
            await story.leave(machines[2])
        else:
            story.crash(machines[2])
        story.restart(machines[1])
        await story.sleep("4s")
        assert [4, 4] == [len(story.queues_of(machine, "orders")) for machine in machines[:2]]
        story.restart(machines[2])
        await story.within("5s").until(lambda story: shared(story, 12))
        assert {1} == {len(who) for who in places(story).values()}

    tell(scenario, members(12))


async def flapping(story: Story, *, up_s: float, down_s: float, minutes: int = 10) -> Machine:
    """One of five is killed again and again, and then it is steady."""
    machines = await begin(story, 5, 5)
    await story.sleep("90s")
    story.history.facts.clear()
    flapper, began = machines[0], story.now
    while story.now < began + minutes * 60:
        story.crash(flapper)
        await story.sleep(f"{down_s}s")
        story.restart(flapper)
        await story.sleep(f"{up_s}s")
    return flapper


@pytest.mark.parametrize("up_s", [4.5, 13.0])
def test_a_flapper_with_a_name_that_is_back_in_time_changes_nothing(up_s: float) -> None:
    async def scenario(story: Story) -> None:
        await flapping(story, up_s=up_s, down_s=0.5, minutes=3)
        assert [] == changes(story)

    tell(scenario, members(5))


@pytest.mark.parametrize(
    ("named", "up_s", "down_s"),
    [
        pytest.param(False, 4.5, 0.5, id="machine"),
        pytest.param(True, 5.0, 12.0, id="name-away-for-longer-than-its-grace"),
    ],
)
def test_a_flapper_changes_the_division_three_times_a_minute_and_gets_its_queues_back(
    named: bool, up_s: float, down_s: float
) -> None:
    """1 of 5 is killed each 5 or 17 s for 10 minutes."""

    async def scenario(story: Story) -> None:
        flapper = await flapping(story, up_s=up_s, down_s=down_s)
        assert 1 <= each_minute(changes(story)) <= limits.CHANGES_MAX
        held = [fact for fact in story.history.of(Said) if fact.event == "join held back"]
        assert held
        assert flapper.app is not None
        assert not flapper.app.is_ready
        assert flapper.app.snapshot().held_back
        await story.within("5m5s").until(lambda story: len(story.queues_of(flapper, "orders")) == 1)
        await story.within("5s").until(lambda story: shared(story, 5))

    tell(scenario, members(5, named=named, protect=True))


def test_a_quarantine_that_never_ends_is_noticed() -> None:
    async def scenario(story: Story) -> None:
        flapper = await flapping(story, up_s=4.5, down_s=0.5, minutes=1)
        await story.within("5m5s").until(lambda story: len(story.queues_of(flapper, "orders")) == 1)

    with pytest.raises(Violation):
        tell(scenario, members(5, named=False, protect=True, mutants=("a quarantine ends",)))


@pytest.mark.parametrize("leaves", [True, False])
def test_ten_members_on_64_queues_share_them_within_two_seconds_of_a_leave(leaves: bool) -> None:
    """Also of a death whose connection ends. The longest of three."""

    async def scenario(story: Story) -> None:
        machines = await begin(story, 10, 64)
        for machine in machines[:3]:
            if leaves:
                await story.leave(machine)
            else:
                story.crash(machine)
            await story.within("2s").until(lambda story: shared(story, 64))
            story.restart(machine)
            await story.within("5s").until(lambda story: shared(story, 64))

    tell(scenario, members(64, named=False))


def test_a_second_process_of_one_name_stops_and_the_first_loses_nothing() -> None:
    async def scenario(story: Story) -> None:
        (first,) = await begin(story, 1, 4)
        await story.send("orders", 20)
        second = twin(story, first)
        await story.within("3s").until(lambda story: not second.is_alive)
        (fact,) = [fact for fact in story.history.of(Life) if fact.event.startswith("refused")]
        assert first.host in fact.event
        assert second.host in fact.event
        await story.send("orders", 20)
        await story.within("20s").until(all_handled)
        assert 4 == len(story.queues_of(first, "orders"))

    tell(scenario, members(4))


def test_without_the_safeguard_two_processes_of_one_name_go_on() -> None:
    async def scenario(story: Story) -> None:
        (first,) = await begin(story, 1, 4)
        second = twin(story, first)
        await story.sleep("3s")
        assert second.is_alive

    tell(scenario, members(4, mutants=("a name belongs to one process",)))


@pytest.mark.parametrize("seed", range(4))
def test_of_two_that_start_at_once_by_one_name_one_stops(seed: int) -> None:
    """Neither is listed when the other asks; so their name is listed twice, and the broker finds one by it."""

    async def scenario(story: Story) -> None:
        await begin(story, 1, 4)
        first = story.cluster.add_app()
        story.cluster.start_app(first)
        second = twin(story, first)
        await story.within("10s").until(lambda story: first.is_alive + second.is_alive == 1)
        await story.within("10s").until(lambda story: shared(story, 4))

    workload = Workload(queues=4, groups=(PLAIN,), is_named=True)
    tell(scenario, Cluster(seed, apps=0, workload=workload))


def twin(story: Story, first: Machine) -> Machine:
    second = story.cluster.add_app()
    second.instance = first.instance
    story.cluster.start_app(second)
    return second


async def killed_in_order(story: Story) -> None:
    """A newcomer with a name is killed, stays away for longer than its grace, and is held back when it comes again."""
    await begin(story, 2, 6)
    (newcomer,) = await story.start_apps(1)
    await story.within("5s").until(lambda story: shared(story, 6))
    await story.sleep("13s")
    share = story.queues_of(newcomer, "orders")
    story.crash(newcomer)
    await story.sleep("17s")
    story.restart(newcomer)
    await story.sleep("1s")
    assert newcomer.app is not None
    assert newcomer.app.snapshot().held_back
    (held,) = [fact for fact in story.history.of(Said) if fact.event == "join held back"]
    assert share == held.fields["queues"]
    assert 1 == held.fields["short_lives"]
    await story.send("orders", 60)
    await story.within("8s").until(all_handled)
    assert newcomer.app.snapshot().held_back
    story.check(nothing_lost, order_kept)


def in_order(*mutants: str) -> Cluster:
    workload = Workload(queues=6, groups=(replace(PLAIN, name="billing", orderly=True),), is_named=True)
    return Cluster(apps=0, workload=workload, mutants=mutants)


def test_who_is_held_back_gives_back_its_locks_and_says_whose_queues_they_were() -> None:
    tell(killed_in_order, in_order())


def test_else_its_queues_stand_under_its_own_lock() -> None:
    with pytest.raises(Violation, match="all handled"):
        tell(killed_in_order, in_order("a name gives back its locks before it waits"))


def test_a_start_that_is_refused_is_no_life() -> None:
    """An administrator's mistake refuses start after start; none of them has joined, so nobody came and went."""

    async def scenario(story: Story) -> None:
        await begin(story, 2, 6)
        (newcomer,) = await story.start_apps(1)
        await story.sleep("90s")
        assert story.cluster.broker.broker is not None
        (node,) = story.cluster.broker.broker.nodes
        story.crash(newcomer)
        await story.sleep("1s")
        node.rules.put_group(replace(node.rules.group("billing"), retry_queues=0))
        story.restart(newcomer)
        await story.sleep("16s")
        node.rules.put_group(replace(node.rules.group("billing"), retry_queues=1))
        await story.within("5s").until(lambda story: bool(story.queues_of(newcomer, "orders")))
        assert 3 <= sum(fact.event.startswith("refused") for fact in story.history.of(Life))
        assert not [fact for fact in story.history.of(Said) if fact.event == "join held back"]

    tell(scenario, members(6))
