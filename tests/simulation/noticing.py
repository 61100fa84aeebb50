"""Whether random seeds notice a mistake that a test makes in the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

from tests.simulation.plans.plan import Plan, draw
from tests.simulation.simulation import play

MOST = 40
"""Enough that another draw of plans finds a mistake, too; the first one that does ends the search."""
MESSAGES_MAX = 400
"""Plans with more take several times as long, and find no more."""


def any_plan(_plan: Plan) -> bool:
    return True


def is_calm(plan: Plan) -> bool:
    return plan.is_calm


def plans_with(way: str, fits: Callable[[Plan], bool] = any_plan) -> Iterator[Plan]:
    """The first plans that go this way and fit."""
    drawn = (draw(seed) for seed in count())
    return (
        plan for plan in drawn if way in plan.workload.ways and plan.workload.messages < MESSAGES_MAX and fits(plan)
    )


def is_noticed(truths: set[str], way: str, fits: Callable[[Plan], bool] = any_plan) -> bool:
    """Whether one of them breaks one of these truths."""
    return any(
        truths & {violation.truth for violation in play(plan)[0].violations}
        for plan in islice(plans_with(way, fits), MOST)
    )
