"""Plans: what a seed draws, that pairs of ways and faults take even turns, and that the matrix counts what happened."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from framework.model.queue import MessageQueue
from tests.simulation.__main__ import complaints, swarm
from tests.simulation.facts import Fault, Started
from tests.simulation.faults.kinds import ALL_KINDS, NAMES, kind_named
from tests.simulation.history import History
from tests.simulation.plans import matrix
from tests.simulation.plans.plan import WIDE_KINDS, Plan, clashes, draw
from tests.simulation.plans.turns import FAULTS_EACH, WAYS_EACH, Shape, shape_of, turn_of
from tests.simulation.plans.ways import WAYS, ways_of
from tests.simulation.workload import GroupLoad, Workload

QUEUE = MessageQueue("orders", "broker-a", 0)


@cache
def a_thousand() -> list[Plan]:
    return [draw(seed) for seed in range(700_000, 701_000)]


def test_every_fifth_seed_is_calm_and_others_draw_a_few_kinds() -> None:
    assert all(plan.is_calm == (plan.seed % 5 == 4) for plan in a_thousand())
    assert all({kind.name for kind in plan.kinds} <= {"leave", "unsubscribe"} for plan in a_thousand() if plan.is_calm)
    assert {1, *WIDE_KINDS} == {len(plan.kinds) for plan in a_thousand() if not plan.is_calm}
    assert {"fifo", "shuffle", "pct"} == {plan.policy for plan in a_thousand()}


def test_some_plans_look_long_at_one_pair_and_others_mix() -> None:
    narrow = [plan for plan in a_thousand() if plan.workload.messages >= 300]
    assert 150 == len(narrow)
    assert all(1 == len(plan.kinds) and 1 == len(plan.workload.groups) for plan in narrow)
    assert 200 <= sum(len(plan.kinds) > 2 and len(plan.workload.ways) > 1 for plan in a_thousand())


def test_a_seed_alone_tells_its_plan() -> None:
    assert draw(700_003) == a_thousand()[3]
    assert draw(700_004) == a_thousand()[4]


@pytest.mark.parametrize("shape", ["wide", "narrow", "calm"])
def test_a_cycle_of_turns_begins_once_with_each_way_and_each_fault(shape: Shape) -> None:
    """All but the usual ways, which stand in other places."""
    ways, faults, usual = tuple("abcdefgxy"), tuple("0123456789"), frozenset("xy")
    rare = [way for way in ways if way not in usual]
    blocks = -(-len(faults) // FAULTS_EACH)
    cycle = [seed for seed in range(10 * len(rare) * blocks) if shape_of(seed) == shape][: len(rare) * blocks]
    turns = [turn_of(seed, ways, faults, usual) for seed in cycle]

    assert {(way, fault) for way in rare for fault in faults} == {
        (turn.ways[0], fault) for turn in turns for fault in turn.faults
    }
    assert len(turns) == len({(turn.ways[0], frozenset(turn.faults)) for turn in turns})
    assert all(WAYS_EACH == len(set(turn.ways)) for turn in turns)
    assert usual < {way for turn in turns for way in turn.ways}


def test_each_pair_that_makes_sense_is_drawn_often_enough() -> None:
    """A fault that finds nobody to strike, or a group that is not at work yet, leaves room for a few more."""
    drawn = Counter[tuple[str, str]]()
    for plan in a_thousand():
        gone = {way for load in plan.workload.groups for way in ways_of(plan.workload, load)}
        drawn.update((way, kind.name) for way in gone for kind in plan.kinds)
    often = sorted(drawn[way, kind] for way in WAYS for kind in NAMES if kind not in WAYS[way].shuns)
    assert 1 <= often[0]
    assert 3 <= often[len(often) // 100]
    assert 4 <= often[len(often) // 20]


def test_what_makes_no_sense_together_is_not_drawn_and_has_a_reason() -> None:
    for plan in a_thousand():
        assert [] == list(clashes(plan.workload.ways, plan.kinds)), f"seed {plan.seed}"
    for way in WAYS.values():
        assert way.shuns.keys() <= set(NAMES)
        assert all(len(why) > 20 for why in way.shuns.values())


def test_a_calm_plan_goes_no_way_that_a_calm_run_cannot_keep_its_promises_with() -> None:
    calm = [plan for plan in a_thousand() if plan.is_calm]
    assert all(WAYS[way].in_calm for plan in calm for way in plan.workload.ways)
    assert not WAYS["slow-handlers"].in_calm
    assert "slow-handlers" in draw(4, ways=["slow-handlers"]).workload.ways, "it can be forced"


def test_what_a_kind_of_fault_needs_is_there() -> None:
    for plan in a_thousand():
        gone = {way for load in plan.workload.groups for way in ways_of(plan.workload, load)}
        assert {kind.needs for kind in plan.kinds if kind.needs} <= gone
    assert {kind.needs for kind in ALL_KINDS if kind.needs} <= set(WAYS)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_can_be_forced(way: str) -> None:
    for seed in range(20):
        plan = draw(seed, kinds=[kind_named("crash")], ways=[way])
        assert (way,) == plan.workload.ways
        assert any(WAYS[way].goes(plan.workload, load) for load in plan.workload.groups)


# -- the matrix


def started(at: float, group: str) -> Started:
    return Started(at, "app-1.1", group, "m", QUEUE, 0, 0)


def pairs_of(*faults: Fault, fired: dict[str, int] | None = None) -> set[matrix.Pair]:
    """Of a group that keeps order and is at work from second 5 to 9, and one that is from 6 to 7."""
    workload = Workload(groups=(GroupLoad("billing"), GroupLoad("inventory", orderly=True)))
    history = History(1)
    history.facts += [started(5, "inventory"), started(6, "billing"), *faults, started(7, "billing")]
    history.facts += [started(9, "inventory")]
    return set(matrix.met(workload, history, {"crash": 1, "pause": 1, "stall": 1} if fired is None else fired))


def test_a_fault_counts_for_groups_that_are_at_work() -> None:
    assert ("concurrent", "crash") in pairs_of(Fault(6.5, "app-1", "crash"))
    assert ("orderly", "crash") in pairs_of(Fault(6.5, "app-1", "crash"))
    assert ("concurrent", "crash") not in pairs_of(Fault(8, "app-1", "crash"))
    assert ("orderly", "crash") in pairs_of(Fault(8, "app-1", "crash"))
    assert set() == pairs_of(Fault(1, "app-1", "crash"))


def test_what_strikes_one_group_counts_for_that_group() -> None:
    pairs = pairs_of(Fault(6.5, "app-1", "pause", "", "billing"))
    assert ("concurrent", "pause") in pairs
    assert ("orderly", "pause") not in pairs


def test_weather_counts_where_it_was_seen() -> None:
    assert ("orderly", "stall") in pairs_of(Fault(0, "the network", "stall"))
    assert set() == pairs_of(Fault(0, "the network", "stall"), fired={"stall": 0})


def test_the_matrix_names_pairs_that_never_met() -> None:
    counts = Counter({(way, kind): 3 for way in WAYS for kind in NAMES})
    assert [] == matrix.never_met(counts)
    del counts["orderly", "crash"]
    lines = list(matrix.lines(counts))

    assert [("orderly", "crash")] == matrix.never_met(counts)
    assert "orderly never met crash" in lines
    assert f"matrix: ways={len(WAYS)} kinds={len(NAMES)} never_met=1" == lines[-1]
    assert 2 == next(line for line in lines if line.startswith("broadcasting ")).split().count("-")


def test_an_empty_pair_is_a_failure_from_a_thousand_seeds_on() -> None:
    result = swarm(1, 3000, 1, seconds=2)
    result.seeds = 999
    assert not any("never met" in line for line in complaints(result))
    result.seeds = 1_000
    assert any("'orderly' never met 'crash' in 1000 seeds" == line for line in complaints(result))
