"""Members whose machines' clocks are an hour off, or are set by one: nothing that they share or wait for is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.client.inquiries import Inquiries
from framework.core.broker_time import Reading
from framework.declare import consumer
from framework.errors import Refused
from framework.testing.sim.machine import Machine
from tests.simulation.checkers import each_queue_has_one_owner, nothing_lost, order_kept, retries_bounded
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Finished, Said
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

HOUR_MS = 3_600_000
BOUND_MS = 200
"""An answer's way there and back, as links of a simulation are."""


def step(machine: Machine, by_ms: int) -> None:
    """Somebody sets its wall clock."""
    machine.skew_ms += by_ms
    if machine.node is not None:
        machine.node.skew_ms += by_ms


async def act(story: Story, machine: Machine, what: Callable[[], None]) -> None:
    """As code of that process would."""

    async def do() -> None:
        what()

    assert machine.node is not None
    await story.cluster.loop.spawn(machine.node, do(), name="act")


def known(story: Story) -> tuple[str, int]:
    """What the broker takes the group to want, and of which version that is."""
    broker = story.cluster.broker.broker
    assert broker is not None
    group = broker.nodes[0].members.find("billing")
    assert group is not None
    wanted = group.wanted["orders"]
    return wanted.expression, wanted.version


def refusals(story: Story) -> list[str]:
    """Pulls that were refused because of a version and not taken again five seconds later."""
    failed = [fact for fact in story.history.of(Said) if fact.event == "pull failed"]
    reasons = [str(fact.fields["reason"]) for fact in failed if fact.at < story.now - 5]
    return [reason for reason in reasons if "code 25" in reason]


async def fast_and_slow(story: Story) -> tuple[Machine, Machine, Machine]:
    """One is right, one an hour fast, one an hour slow. The fast one speaks first."""
    cluster = story.cluster
    right, fast, slow = (cluster.add_app() for _ in range(3))
    step(fast, HOUR_MS)
    step(slow, -HOUR_MS)
    await cluster.start_broker()
    await cluster.start_producer()
    for machine in (fast, right, slow):
        cluster.start_app(machine)
        await story.sleep("1s")
    return right, fast, slow


async def come_and_go(story: Story) -> None:
    """Five minutes of joins and leaves, and a change of tags at the slow one in the middle."""
    right, fast, slow = await fast_and_slow(story)
    for round_ in range(5):
        await story.send("orders", 20, over="20s")
        for machine in (fast, slow, right):
            if round_ == 2 and machine is slow:
                continue
            await story.leave(machine)
            await story.sleep("3s")
            story.restart(machine)
            await story.sleep("8s")
        if round_ == 2:
            await subscribe_to(story, slow, "a || b")
            await story.sleep("2s")
            assert "a || b" == known(story)[0], "the newest subscription counts"
            await subscribe_to(story, slow, "*")
    await story.within("2m").until(all_handled)
    await story.sleep("1m")
    assert story.now > 300
    assert [] == refusals(story)
    assert [1, 1, 2] == sorted(len(story.queues_of(machine, "orders")) for machine in (right, fast, slow))
    story.check(nothing_lost, retries_bounded, each_queue_has_one_owner)


async def subscribe_to(story: Story, machine: Machine, tags: str) -> None:
    app = machine.app
    assert app is not None
    (only,) = app.consumers

    def change() -> None:
        app.subscribe(consumer("orders", "billing", tags=tags)(only.spec.function))

    await act(story, machine, change)


def cluster_with(*mutants: str) -> Cluster:
    load = GroupLoad(fail_rate=0.05, poison_rate=0.0)
    return Cluster(3, apps=0, workload=Workload(groups=(load,)), mutants=mutants)


def test_members_that_are_an_hour_fast_and_slow_share_with_one_that_is_right() -> None:
    tell(come_and_go, cluster_with())


async def change_at_the_slow_one(story: Story) -> None:
    right, fast, slow = await fast_and_slow(story)
    await subscribe_to(story, slow, "a")
    await story.sleep("2s")
    assert "a" == known(story)[0], "the newest subscription counts"
    await subscribe_to(story, right, "b")
    await story.sleep("2s")
    assert "b" == known(story)[0], "the newest subscription counts"
    assert fast.app is not None
    assert slow.app is not None
    broker_ms = story.cluster.broker.skew_ms
    for machine, off in ((fast, HOUR_MS), (slow, -HOUR_MS)):
        assert machine.app is not None
        clock = machine.app.snapshot().clock
        truth = machine.skew_ms - broker_ms
        assert clock.low_ms <= truth <= clock.high_ms
        assert clock.high_ms - clock.low_ms < BOUND_MS
        assert abs(truth - off) < BOUND_MS
    assert any(fact.event == "local clock skewed" for fact in story.history.of(Said))


@pytest.mark.parametrize("mutant", [None, "what is dated goes by the clock of the brokers"])
def test_a_change_at_the_slow_member_counts_at_once(mutant: str | None) -> None:
    if mutant is None:
        tell(change_at_the_slow_one, cluster_with())
    else:
        with pytest.raises(AssertionError, match="the newest subscription counts"):
            tell(change_at_the_slow_one, cluster_with(mutant))


def in_order(seed: int, *mutants: str) -> Cluster:
    load = GroupLoad("inventory", orderly=True, fail_rate=0.0, poison_rate=0.0, pauses_s=(1.0,))
    return Cluster(seed, apps=0, workload=Workload(groups=(load,)), mutants=mutants)


async def set_back_while_stopped(story: Story) -> None:
    """It wakes after its lock was given to another, and by the clock on the wall no time has passed."""
    a, _ = await story.start_apps(2)
    await story.send("orders", 120)
    await story.sleep("5s")
    step(a, -HOUR_MS)
    story.stop(a, "65s")
    await story.within("5m").until(all_handled)
    story.check(order_kept, nothing_lost)


def test_a_wall_clock_that_is_set_back_makes_no_lease_longer() -> None:
    tell(set_back_while_stopped, in_order(0))


def said(story: Story, event: str) -> list[Said]:
    return [fact for fact in story.history.of(Said) if fact.event == event]


def stepping(by_ms: int, *, orderly: bool, mutant: str | None = None) -> None:
    """Two handlers of fifty seconds, begun at different times; the clock is set while both run, limits are a minute."""
    load = GroupLoad("inventory", orderly=orderly, fail_rate=0.0, poison_rate=0.0, pauses_s=(50.0,))
    settings = {} if orderly else {"timeout": "60s"}
    workload = Workload(queues=2, groups=(load,), settings=settings, drain="60s")
    mutants = () if mutant is None else (mutant,)

    async def scenario(story: Story) -> None:
        (a,) = await story.start_apps(1)
        await story.send("orders", 1)
        await story.sleep("30s")
        await story.send("orders", 1)
        await story.sleep("10s")
        step(a, by_ms)
        await story.sleep("35s")
        assert [] == said(story, "lease lost"), "off by an hour"
        assert [] == said(story, "handlers timed out"), "off by an hour"
        await story.within("10s").until(lambda story: len(story.handled()) == 2)
        await story.within("3s").until(all_handled)

    tell(scenario, Cluster(0, apps=0, workload=workload, mutants=mutants))


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_a_step_of_an_hour_moves_no_lease_no_limit_and_no_flush(by_ms: int, orderly: bool) -> None:
    stepping(by_ms, orderly=orderly)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_lease_and_a_limit_by_the_wall_clock_would_be_noticed(orderly: bool) -> None:
    with pytest.raises(AssertionError, match="off by an hour"):
        stepping(HOUR_MS, orderly=orderly, mutant="durations are measured by a clock that nobody sets")


def test_the_age_of_messages_goes_by_the_broker_s_clock() -> None:
    """`skip_older_than` on a machine that is an hour fast: nothing new is skipped."""
    load = GroupLoad(fail_rate=0.0, poison_rate=0.0)
    cluster = Cluster(0, apps=0, workload=Workload(groups=(load,), settings={"skip_older_than": "5m"}))

    async def scenario(story: Story) -> int:
        machine = cluster.add_app()
        step(machine, HOUR_MS)
        await story.start_apps(1)
        await story.send("orders", 10)
        await story.within("1m").until(all_handled)
        return skipped(machine)

    assert 0 == tell(scenario, cluster)


def skipped(machine: Machine) -> int:
    assert machine.app is not None
    return sum(group.skipped for group in machine.app.snapshot().groups)


FIVE_YEARS_MS = 5 * 365 * 24 * HOUR_MS


@pytest.mark.parametrize("lie_ms", [FIVE_YEARS_MS, -FIVE_YEARS_MS])
def test_one_broker_s_wrong_clock_skips_nothing_new_of_another(lie_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tells a time that is years off; the other one has the topic, its clock is right, and it may not be asked."""
    load = GroupLoad(fail_rate=0.0, poison_rate=0.0)
    workload = Workload(queues=2, groups=(load,), settings={"skip_older_than": "1m"})
    cluster, ask = Cluster(0, apps=0, brokers=2, workload=workload), Inquiries.clock

    async def told(inquiries: Inquiries, address: str) -> Reading:
        if address == inquiries.find("broker-b"):
            raise Refused(16, "no permission", request="runtime", peer=address)
        reading = await ask(inquiries, address)
        return Reading(reading.low_ms + lie_ms, reading.high_ms + lie_ms)

    monkeypatch.setattr(Inquiries, "clock", told)

    async def scenario(story: Story) -> None:
        (app,) = await story.start_apps(1)
        await story.send("orders", 40)
        await story.within("1m").until(all_handled)
        assert 0 == skipped(app)
        await story.leave(app)
        await story.send("orders", 40)
        await story.sleep("2m")
        story.restart(app)
        await story.within("1m").until(lambda _: skipped(app) == 40)
        assert 40 == len(story.handled()), "what is old there is skipped as ever"
        assert {"broker-b"} == {fact.queue.broker for fact in story.history.of(Finished)}

    tell(scenario, cluster)
