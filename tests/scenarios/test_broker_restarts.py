"""A broker, or a name server, is started anew while members are at work: nothing moves."""

from __future__ import annotations

from collections import Counter

import pytest

from framework.broker.store.topics import Topic
from framework.core.limits import LIST_KEPT_MS
from framework.net.route import AWAY_SECONDS
from framework.testing.errors import Violation
from framework.testing.sim.machine import Machine
from tests.simulation.checkers import nothing_lost, order_kept, who_is_heard_counts
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Reassigned, Said, Started
from tests.simulation.faults.brokers import kill, restart, without
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

PLAIN = GroupLoad(fail_rate=0.0, poison_rate=0.0, pauses_s=(0.02, 0.1))
TOGETHER = "a broker that was restarted takes nobody off the list"


def cluster(brokers: int, *mutants: str) -> Cluster:
    return Cluster(apps=0, brokers=brokers, workload=Workload(queues=4, groups=(PLAIN,)), mutants=mutants)


async def begin(story: Story, brokers: int, *, forgets: bool = True) -> list[Machine]:
    """Four members that share everything, and calm; what was before is not asked about, unless somebody needs it."""
    await story.cluster.start_broker()
    await story.cluster.start_producer()
    assert story.cluster.broker.broker is not None
    for node in story.cluster.broker.broker.nodes:
        node.rules.add(Topic(name="orders", read_queues=4, write_queues=4))
    machines = await story.start_apps(4)
    await story.within("10s").until(lambda story: is_shared(story, 4 * brokers))
    await story.sleep("1m")
    if forgets:
        story.history.facts.clear()
    return machines


def is_shared(story: Story, count: int) -> bool:
    owned = [queue for machine in story.cluster.apps for queue in story.queues_of(machine, "orders")]
    return len(owned) == count * len(story.history.groups) and len(set(owned)) == count


async def one_of_two(story: Story) -> None:
    await begin(story, 2)
    assert story.cluster.broker.broker is not None
    sending = story.cluster.loop.create_task(story.send("orders", 200, over="60s"), name="sending")
    for node in story.cluster.broker.broker.nodes:
        restart(story.nemesis, node, 5.0)
        await story.sleep("50s")
    await sending
    await story.within("30s").until(all_handled)
    story.check(nothing_lost, who_is_heard_counts)
    assert [] == list(story.history.of(Reassigned))


async def the_only_one(story: Story) -> None:
    await begin(story, 1)
    story.cluster.crash(story.cluster.broker)
    await story.sleep("20s")
    await story.cluster.start_broker()
    await story.sleep("60s")
    assert [] == list(story.history.of(Reassigned))


@pytest.mark.parametrize(("brokers", "scenario"), [(2, one_of_two), (1, the_only_one)])
def test_members_keep_their_queues(brokers: int, scenario: object) -> None:
    tell(scenario, cluster(brokers))  # type: ignore[arg-type]  # both are


@pytest.mark.parametrize(("brokers", "scenario"), [(2, one_of_two), (1, the_only_one)])
def test_and_do_not_where_lists_are_believed_as_they_are(brokers: int, scenario: object) -> None:
    with pytest.raises((AssertionError, Violation)):
        tell(scenario, cluster(brokers, TOGETHER))  # type: ignore[arg-type]  # both are


KEPT = "a broker that answers is not given up with its route"


async def name_server(story: Story) -> None:
    """One that has not heard of a broker yet says that the topic has no queues there."""
    await begin(story, 2)
    broker = story.cluster.broker.broker
    assert broker is not None
    for node in broker.nodes:
        heard = broker.intercept(without(node))
        await story.sleep("32s")  # routes are asked for each 30 s, and this long it takes at worst
        heard()
        await story.sleep("40s")
    said = [fact.fields["reason"] for fact in story.history.of(Said) if fact.event == "route not refreshed"]
    assert any("leaves out broker-a" in reason for reason in said)
    assert any("leaves out broker-b" in reason for reason in said)
    assert [] == list(story.history.of(Reassigned))


def test_a_name_server_s_restart_moves_nothing() -> None:
    tell(name_server, cluster(2))


def test_and_does_where_its_word_is_taken_at_once() -> None:
    with pytest.raises(AssertionError):
        tell(name_server, cluster(2, KEPT))


async def until_left(story: Story, *, is_dead: bool) -> float:
    """How long it takes until the queues of a broker are left that a name server has forgotten."""
    await begin(story, 2)
    broker = story.cluster.broker.broker
    assert broker is not None
    broker.intercept(without(broker.nodes[1]))
    if is_dead:
        restart(story.nemesis, broker.nodes[1], 600.0)
    began = story.now
    await story.within("2m").until(lambda story: is_shared(story, 4))
    return story.now - began


def test_a_broker_that_is_gone_for_good_is_left_when_that_has_been_said_for_longer() -> None:
    assert 35.0 <= tell(lambda story: until_left(story, is_dead=False), cluster(2)) <= 35.0 + 33 + 6


def test_a_broker_that_is_dead_is_left_once_it_should_be_back() -> None:
    assert AWAY_SECONDS <= tell(lambda story: until_left(story, is_dead=True), cluster(2)) <= AWAY_SECONDS + 10


IN_ORDER = GroupLoad(name="ledger", orderly=True, fail_rate=0.0, poison_rate=0.0, pauses_s=(0.02, 0.1))
EXPECTED, GOES_ON = "a broker that restarts is expected back", "an owner goes on where it was"
NEWCOMER = "a newcomer expects no broker back"


def both_kinds(seed: int, *mutants: str) -> Cluster:
    return Cluster(seed, apps=0, brokers=2, workload=Workload(queues=4, groups=(PLAIN, IN_ORDER)), mutants=mutants)


async def killed(story: Story, away_s: float = 25.0, of: str = "broker-") -> tuple[int, dict[str, int]]:
    """How often queues moved, and group -> how many messages of such brokers were begun more than once."""
    await begin(story, 2, forgets=False)
    began = story.now
    assert story.cluster.broker.broker is not None
    sending = story.cluster.loop.create_task(story.send("orders", 600, over="90s"), name="sending")
    await story.sleep("10s")
    await kill(story.nemesis, story.cluster.broker.broker.nodes[1], away_s)
    await sending
    await story.within("60s").until(all_handled)
    story.check(nothing_lost, order_kept)
    moved = sum(fact.at > began for fact in story.history.of(Reassigned))
    begun = Counter(
        (fact.group, fact.queue, fact.offset) for fact in story.history.of(Started) if of in fact.queue.broker
    )
    groups = story.history.groups
    return moved, {group: sum(times - 1 for (of, *_), times in begun.items() if of == group) for group in groups}


@pytest.mark.parametrize("seed", range(2))
def test_a_broker_that_is_killed_and_started_again_repeats_what_was_in_hand_alone(seed: int) -> None:
    """Without its members' memory it would hand out again what was done in the five seconds before."""
    moved, repeats = tell(killed, both_kinds(seed))
    assert (0, 0) == (moved, repeats["billing"])
    assert repeats["ledger"] <= 4, "at most what each of its queues was at when its lock was lost"


def test_and_far_more_where_nobody_remembers_where_it_was() -> None:
    assert sum(tell(killed, both_kinds(0, GOES_ON))[1].values()) > 10


def test_queues_move_where_it_is_not_expected_back() -> None:
    assert tell(killed, both_kinds(0, EXPECTED))[0] > 0


def test_nor_where_it_was_away_for_longer_and_its_queues_come_back_to_who_had_them() -> None:
    moved, repeats = tell(lambda story: killed(story, AWAY_SECONDS + 20.0, "broker-b"), both_kinds(0))
    assert moved > 0
    assert 0 == repeats["billing"]
    assert repeats["ledger"] <= 4


async def joined_meanwhile(story: Story) -> list[str]:
    """Queues of the broker that is there which have no owner or several, while the other one is expected back."""
    first, *_ = await begin(story, 2)
    await story.leave(first)
    await story.sleep("20s")
    assert story.cluster.broker.broker is not None
    await kill(story.nemesis, story.cluster.broker.broker.nodes[1], 300.0)
    await story.sleep("10s")
    story.restart(first)
    await story.sleep("15s")
    owners = Counter(queue for each in story.cluster.apps for queue in story.queues_of(each, "orders"))
    return [queue for queue in (f"orders@broker-a:{number}" for number in range(4)) if owners[queue] != 1]


def test_who_comes_meanwhile_and_those_who_were_there_divide_alike() -> None:
    assert [] == tell(joined_meanwhile, cluster(2))


def test_and_do_not_where_the_others_go_on_expecting_it() -> None:
    assert [] != tell(joined_meanwhile, cluster(2, NEWCOMER))


def test_who_leaves_in_order_soon_after_is_followed_at_once() -> None:
    async def scenario(story: Story) -> None:
        machines = await begin(story, 1)
        await story.restart_broker()
        await story.sleep("12s")  # all are back, and have seen each other
        await story.leave(machines[0])
        await story.within("2s").until(lambda story: is_shared(story, 4))

    tell(scenario, cluster(1))


def test_who_died_with_the_broker_is_given_up_within_the_bound() -> None:
    async def scenario(story: Story) -> float:
        machines = await begin(story, 1)
        story.cluster.crash(story.cluster.broker)
        story.crash(machines[0])
        await story.sleep("1s")
        await story.cluster.start_broker()
        began = story.now
        await story.within("2m").until(lambda story: is_shared(story, 4))
        return story.now - began

    assert LIST_KEPT_MS / 1000 <= tell(scenario, cluster(1)) <= LIST_KEPT_MS / 1000 + 6
