"""Each fault of a run can be named, repeated and left out, while the others happen as they did."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from framework.testing.sim.streams import Stream
from tests.simulation.facts import Fault
from tests.simulation.faults.kinds import ALL_KINDS, kind_named
from tests.simulation.faults.nemesis import PAUSE_MAX_S, PAUSE_MIN_S, draw_strikes
from tests.simulation.history import History
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long


def faults_of(history: History) -> list[tuple[float, str, str, str]]:
    return [(round(fact.at, 2), fact.who, fact.kind, fact.detail) for fact in history.facts if type(fact) is Fault]


def test_strikes_are_spread_over_the_time() -> None:
    strikes = draw_strikes(Stream("some"), ALL_KINDS, 42.0)
    times = [0.0, *(strike.at for strike in strikes)]

    assert list(range(len(strikes))) == [strike.number for strike in strikes]
    assert all(PAUSE_MIN_S - 0.01 <= after - before <= PAUSE_MAX_S + 0.01 for before, after in pairwise(times))
    assert 42.0 - PAUSE_MAX_S <= times[-1] < 42.0
    assert len({strike.kind for strike in strikes}) > 1


def test_weather_does_not_strike() -> None:
    assert () == draw_strikes(Stream("some"), [kind_named("stall")], 42.0)
    assert {"leave"} == {
        each.kind for each in draw_strikes(Stream("some"), [kind_named("stall"), kind_named("leave")], 42.0)
    }


def test_strikes_that_are_named_happen_as_those_that_are_drawn() -> None:
    plan = draw(6, seconds=20, kinds=[kind_named("cut"), kind_named("crash"), kind_named("stall")])
    drawn, _ = play(plan)
    named, _ = play(plan.with_strikes())
    assert drawn.trace == named.trace
    assert drawn.fired == named.fired


def test_a_strike_that_is_left_out_changes_no_other() -> None:
    """Cuts: whom they hit does not depend on who is alive."""
    plan = draw(6, seconds=20, kinds=[kind_named("cut"), kind_named("slow")]).with_strikes()
    assert plan.strikes is not None
    _, whole = play(plan)
    left_out = plan.strikes[1]
    _, fewer = play(replace(plan, strikes=tuple(each for each in plan.strikes if each is not left_out)))

    told = faults_of(whole)
    assert len(plan.strikes) >= 3
    assert left_out.kind == told[1][2]
    assert [*told[:1], *told[2:]] == faults_of(fewer)
