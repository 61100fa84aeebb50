"""Groups of many members in virtual time: how soon they rest, and what they ask of brokers meanwhile.

Virtual seconds are the same on every machine, so these bounds say nothing of how busy it is.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.plots import STYLES
from benchmarks.scale.__main__ import row, table
from benchmarks.scale.drill import BACK, CALM, LEAVE, LOST, PHASES, ROLLING, START, STORM, Drill, Figures
from benchmarks.scale.ownership import Ownership
from benchmarks.scale.plot import drawn
from benchmarks.scale.tap import Peak
from benchmarks.scale.world import GroupWorld

START_REST_S, LEAVE_REST_S = 30.0, 5.0
ASKED_MAX = 3
"""Of one broker by one member within any second, because of the other members."""


def holds_its_bounds(found: dict[str, Figures], queues: int) -> None:
    start, leave = found[START], found[LEAVE]
    assert start.rest_s is not None
    assert start.rest_s <= START_REST_S
    assert queues == start.moves, "no queue was handed round"
    assert leave.rest_s is not None
    assert leave.rest_s <= LEAVE_REST_S
    assert 1 <= leave.moves < queues
    assert all(1 <= each.group_peak <= ASKED_MAX for each in (start, leave))


def test_a_group_of_forty_is_soon_at_rest_and_asks_little() -> None:
    world = GroupWorld(40)
    found = Drill(world).run((LEAVE,))

    assert [] == world.failures
    assert [START, LEAVE] == list(found)
    holds_its_bounds(found, queues=42)


def test_sixteen_members_rest_after_whatever_happens_to_them() -> None:
    world = GroupWorld(16)
    found = Drill(world).run()

    assert [] == world.failures
    assert list(PHASES) == list(found)
    assert 0 == found[CALM].moves
    rest_s = {name: figures.rest_s for name, figures in found.items()}
    assert None not in rest_s.values()
    assert all((rest_s[name] or 0.0) <= LEAVE_REST_S for name in (LEAVE, ROLLING, STORM)), rest_s
    # Members hear of a broker's end at once or with the next route, each 30 s.
    assert all((rest_s[name] or 0.0) <= 35.0 for name in (LOST, BACK)), rest_s
    # The heartbeat of each 30 s, and what one more question about a restarted member costs, fall into the same second.
    assert all(figures.group_peak <= ASKED_MAX + 2 for figures in found.values()), found


@pytest.mark.slow
def test_more_members_than_are_remembered_as_coming_and_going_may_restart() -> None:
    """The hundred and first one's end broke the rebalance loops of all the others."""
    world = GroupWorld(120)
    found = Drill(world).run((ROLLING,))

    assert [] == world.failures
    assert found[ROLLING].rest_s is not None


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_thousand_members_rest_within_the_bounds() -> None:
    world = GroupWorld(1_000)
    found = Drill(world).run((LEAVE,))

    assert [] == world.failures
    holds_its_bounds(found, queues=1_002)


def test_a_queue_rests_with_one_owner_that_knows_where_to_begin() -> None:
    now = [0.0]
    seen = Ownership(lambda: now[0], ["orders@a:0", "orders@b:0"])
    for who, queue in (("one", "orders@a:0"), ("two", "orders@b:0")):
        seen.said(who, {"event": "assignment changed", "gained": [queue], "lost": []})
        assert not seen.is_at_rest
        now[0] += 1.0
        seen.said(who, {"event": "queue positioned", "queue": queue})
    assert (True, 2, 2.0) == (seen.is_at_rest, seen.moves, seen.changed_at)
    seen.said("two", {"event": "assignment changed", "gained": ["orders@a:0"], "lost": []})
    assert ["orders@a:0"] == seen.restless, "two believe to own it"
    seen.ended("one")
    assert ["orders@a:0"] == seen.restless, "its owner does not know where to begin"
    seen.said("two", {"event": "queue positioned", "queue": "orders@a:0"})
    assert seen.is_at_rest
    seen.said("two", {"event": "assignment changed", "gained": [], "lost": ["orders@b:0"]})
    assert ["orders@b:0"] == seen.restless
    seen.away(["orders@b:0"])
    assert seen.is_at_rest, "its broker is down"
    seen.away([])
    assert not seen.is_at_rest


def test_a_peak_is_of_any_second_and_not_of_whole_ones() -> None:
    peak = Peak()
    for at in (0.5, 0.9, 1.2, 1.4, 1.6, 3.0):
        peak.count(("app-1", 9876), at, 38)
    peak.count(("app-2", 9876), 1.3, 38)
    peak.count(("app-1", 9877), 1.3, 38)

    assert 4 == peak.highest, "from 0.5 to 1.4, and from 0.9 to 1.6"
    assert "app-1" == peak.who


def run_of(members: int) -> dict[str, Any]:
    found = {
        "members": members, "moves": 3 * members, "rest_s": 1.5, "mean": members / 2, "peak": 9 * members,
        "group_peak": 3, "member_peak": 7, "cpu_s": members / 10, "virtual_s": 60.0, "cpu_a_minute": members / 10,
    }  # fmt: skip
    return {"members": members, "phases": {phase: {**found, "phase": phase} for phase in PHASES}}


def test_the_plot_is_one_line_for_each_phase_in_each_panel() -> None:
    runs = [run_of(10), run_of(100), run_of(1_000)]
    runs[0]["phases"][CALM]["moves"] = 0
    runs[1]["phases"][STORM]["rest_s"] = None
    picture = ET.fromstring(drawn(runs))

    name = "{http://www.w3.org/2000/svg}"
    lines = picture.findall(f"{name}polyline")
    assert 4 * len(PHASES) == len(lines)
    assert len({(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}) == len(PHASES) == len(STYLES)
    assert 4 * 3 * len(PHASES) - 3 == len(picture.findall(f"{name}circle")), "what was not measured is not drawn"
    assert "prefers-color-scheme:dark" in (picture.findtext(f"{name}style") or "")


def test_the_table_has_a_row_for_each_phase_and_size() -> None:
    rows = table([run_of(10), run_of(1_000)]).splitlines()

    assert 2 + 2 * len(PHASES) == len(rows)
    assert "| storm | 1,000 | 3,000 | 1.5 | 500.0, 9,000 | 3, 7 | 100.0 |" == rows[-1]
    assert "not all" in row({**run_of(10)["phases"][STORM], "rest_s": None})
