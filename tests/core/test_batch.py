"""What a batch handler's answer means for each of its messages."""

from __future__ import annotations

import pytest

from framework.core.batch import spread
from framework.model.outcome import Ack, BatchFailed, Commit, DeadLetter, RetryLater, Rollback


def test_nothing_said_is_success_for_all() -> None:
    assert [None] * 3 == spread(None, 3)


def test_one_outcome_is_each_messages() -> None:
    assert [RetryLater("1s")] * 3 == spread(RetryLater("1s"), 3)


@pytest.mark.parametrize("answer", [Commit(), Rollback("2s")])
def test_a_commit_or_a_rollback_is_the_batch_s(answer: object) -> None:
    assert [answer] * 3 == spread(answer, 3)


def test_a_list_has_one_outcome_a_message() -> None:
    answer = [None, Ack(), DeadLetter("x")]

    assert answer == spread(answer, 3)
    assert answer == spread(tuple(answer), 3)


@pytest.mark.parametrize(("index", "good"), [(-1, 0), (0, 1), (3, 4), (9, 10)])
def test_all_is_well_up_to_an_index(index: int, good: int) -> None:
    """Ten in a batch, the fifth fails: five to ten are tried again, and none of the others."""
    results = spread(index, 10)

    assert [None] * good == results[:good]
    assert all(isinstance(each, RetryLater) for each in results[good:])
    assert 10 == len(results)


@pytest.mark.parametrize("at", [0, 4, 9])
def test_a_failure_names_the_first_that_failed(at: int) -> None:
    """The same index, said by raising: what is before it is not run again."""
    error = BatchFailed(at=at)

    assert [None] * at + [error] * (10 - at) == spread(error, 10)
    assert f"failed at message {at} of the batch" == str(error)


def test_any_other_exception_is_each_messages() -> None:
    error = ValueError("x")

    assert [error] * 3 == spread(error, 3)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([None, None], "2 outcomes for a batch of 3"),
        ([None, 5, None], "outcome 1 of the batch is a int"),
        ([None, None, Commit()], "outcome 2 is Commit(), which is said of a whole batch"),
        (3, "3 is no index of a batch of 3"),
        (-2, "-2 is no index of a batch of 3"),
        (BatchFailed(at=3), "BatchFailed(at=3) is not in a batch of 3"),
        (BatchFailed(at=-1), "BatchFailed(at=-1) is not in a batch of 3"),
        (True, "not a bool"),
        ("ok", "not a str"),
        ({}, "not a dict"),
    ],
    ids=repr,
)
def test_an_answer_that_fits_no_batch_has_all_of_it_tried_again(answer: object, reason: str) -> None:
    """Nobody knows what was handled."""
    results = spread(answer, 3)

    assert 3 == len(results)
    assert all(isinstance(each, ValueError) and reason in str(each) for each in results)
