"""Budget: a purse of bytes that tells when its room ends and when it comes back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.core.budget import Budget


class Told:
    def __init__(self) -> None:
        self.edges: list[bool] = []
        self.budget = Budget(100, lambda: self.edges.append(self.budget.has_room))


def test_room_ends_at_the_limit_and_comes_back_below_it() -> None:
    told = Told()
    budget = told.budget

    budget.take(99)
    assert (True, []) == (budget.has_room, told.edges)
    budget.take(1)
    assert (False, [False]) == (budget.has_room, told.edges)
    budget.give(1)
    assert (True, [False, True]) == (budget.has_room, told.edges)


def test_between_the_edges_nobody_is_told() -> None:
    """Pulls already under way overdraw it; a call each would wake every queue for nothing."""
    told = Told()
    budget = told.budget

    budget.take(150)
    budget.take(50)
    budget.give(100)
    assert [False] == told.edges
    budget.give(50)
    budget.give(50)
    assert [False, True] == told.edges
    assert 0 == budget.used


def test_one_message_larger_than_everything_is_taken_alone() -> None:
    budget = Budget(100)

    seen = [budget.has_room]
    budget.take(5_000)
    seen.append(budget.has_room)
    budget.give(5_000)
    seen.append(budget.has_room)
    assert [True, False, True] == seen


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), max_size=60))
def test_edges_alternate_and_agree_with_the_purse(sizes: list[int]) -> None:
    told = Told()
    budget = told.budget
    held: list[int] = []

    for size in sizes:
        if size % 2 and held:
            budget.give(held.pop(size % len(held)))
        else:
            held.append(size)
            budget.take(size)
        assert sum(held) == budget.used
        assert (sum(held) < 100) is budget.has_room
        assert (told.edges[-1] if told.edges else True) is budget.has_room
    assert [each % 2 == 1 for each in range(len(told.edges))] == told.edges


def test_another_limit_tells_where_it_makes_an_edge() -> None:
    told = Told()
    budget = told.budget
    budget.take(60)

    budget.resize(200)
    budget.resize(61)
    assert [] == told.edges
    budget.resize(60)
    budget.resize(10)
    assert [False] == told.edges
    budget.resize(100)
    assert [False, True] == told.edges
    assert budget.has_room


def test_giving_more_than_was_taken_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Budget(100).give(1)


def test_a_budget_of_nothing_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Budget(0)


def test_its_repr_is_its_instrument_panel() -> None:
    budget = Budget(100)
    budget.take(30)

    assert "<Budget 30 of 100 bytes>" == repr(budget)
