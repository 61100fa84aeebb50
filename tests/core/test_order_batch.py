"""Batches in order: the front has ended, the tail is tried again, and what reached its maximum is given up once."""

from __future__ import annotations

import pytest

from framework.core.batch import decide_batch
from framework.model.outcome import Ack, DeadLetter, Drop, Outcome, RetryLater, Suspend

OK, NO = Ack(), RetryLater(reason="no")


@pytest.mark.parametrize(
    ("outcomes", "attempts", "done", "copies", "dropped"),
    [
        ([OK] * 10, [1] * 10, 10, [], []),
        ([OK] * 4 + [NO] * 6, [1] * 10, 4, [], []),
        ([OK] * 4 + [NO] + [OK] * 5, [1] * 10, 4, [], []),
        ([NO] * 3, [1] * 3, 0, [], []),
        ([NO] * 3, [3] * 3, 3, [0, 1, 2], []),
        # Older ones have more tries behind them: exactly those that reached the maximum are given up.
        ([NO] * 4, [3, 3, 2, 1], 2, [0, 1], []),
        ([NO, NO, NO], [2, 3, 1], 0, [1], []),
        ([OK, DeadLetter("x"), OK, NO, OK], [1] * 5, 3, [1], []),
        ([NO, OK, OK], [2, 9, 9], 0, [], []),
        ([Drop("me"), Suspend("5s"), Drop("me")], [1] * 3, 1, [], [0, 2]),
    ],
)
def test_what_becomes_of_a_batch(
    outcomes: list[Outcome], attempts: list[int], done: int, copies: list[int], dropped: list[int]
) -> None:
    ends = decide_batch(outcomes, attempts, max_retries=2)

    assert (done, copies, dropped) == (ends.done, [index for index, _ in ends.copies], ends.dropped)
    assert (ends.stay is None) == (done == len(outcomes))


def test_the_first_that_stays_says_for_how_long() -> None:
    ends = decide_batch([Suspend("5s"), Suspend("9s")], [1, 1], max_retries=2)

    assert ends.stay is not None
    assert 5_000 == ends.stay.pause_ms
