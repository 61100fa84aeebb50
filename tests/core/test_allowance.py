"""Allowance: so much a second, in number and in time, and a quiet minute saves up no more than one burst."""

from __future__ import annotations

from framework.core.budget import Allowance


def taken(allowance: Allowance, now_ms: float, tries: int, spent_ms: float = 0.0) -> int:
    count = 0
    for _ in range(tries):
        if allowance.has_room(now_ms):
            allowance.take(spent_ms)
            count += 1
    return count


def test_so_many_a_second_and_no_more_after_a_quiet_minute() -> None:
    allowance = Allowance(32, 50.0, 0.0)

    assert [32, 16, 32] == [taken(allowance, now, 100) for now in (0, 500, 60_000)]


def test_who_is_expensive_is_answered_less_often() -> None:
    allowance = Allowance(32, 50.0, 0.0)

    assert [5, 1, 5] == [taken(allowance, now, 100, 10.0) for now in (0, 200, 60_000)]


def test_one_answer_that_cost_much_is_paid_for_before_the_next() -> None:
    allowance = Allowance(32, 50.0, 0.0)
    taken(allowance, 0, 1, 500.0)

    assert [0, 0, 1] == [taken(allowance, now, 1) for now in (1_000, 9_000, 9_001)]
