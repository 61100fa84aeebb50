"""Breaker: it opens when so many messages failed and none succeeded, and tries one at a time until one does."""

from __future__ import annotations

from framework.core.breaker import CAUSES_MAX, OTHERS, Breaker


def failed(breaker: Breaker, message: int, now_ms: int = 0, kind: str = "ValueError", tried: object = None) -> bool:
    return breaker.failed(now_ms, message, kind, f"message {message}", tried)


def opened(limit: int = 3, now_ms: int = 0) -> Breaker:
    breaker = Breaker("orders", limit)
    assert [False] * (limit - 1) + [True] == [failed(breaker, number, now_ms) for number in range(limit)]
    return breaker


def test_it_opens_at_the_limit_and_a_success_between_begins_anew() -> None:
    breaker = Breaker("orders", 3)
    for message in range(50):
        assert not failed(breaker, 2 * message)
        assert not failed(breaker, 2 * message + 1)
        assert not breaker.succeeded()
        assert 0 == breaker.failures

    assert not failed(breaker, 101)
    assert not failed(breaker, 102)
    assert failed(breaker, 103)
    assert breaker.is_open


def test_a_message_counts_once_however_often_it_is_tried() -> None:
    """A poison message that is tried again and again on a quiet topic is no bad deploy."""
    breaker = Breaker("orders", 3)

    assert not any(failed(breaker, 7) for _ in range(100))
    assert 1 == breaker.failures


def test_nothing_opens_it_where_it_is_off() -> None:
    breaker = Breaker("orders", 0)

    assert not any(failed(breaker, message) for message in range(1_000))
    assert 0 == breaker.failures


def test_one_batch_that_fails_does_not_open_it() -> None:
    breaker = Breaker("orders", 3, least=9)

    assert not any(failed(breaker, message) for message in range(8))
    assert failed(breaker, 8)


def test_pauses_double_from_a_second_to_a_minute_and_each_trial_is_alone() -> None:
    breaker, now_ms, pauses = opened(now_ms=5_000), 5_000, []
    for message in range(9):
        due_ms = breaker.due_ms
        assert not breaker.may_try(due_ms - 1)
        assert breaker.may_try(due_ms)
        pauses.append((due_ms - now_ms) // 1_000)
        breaker.begin(message)
        assert not breaker.may_try(due_ms + 1_000_000), "one at a time, however long it takes"
        now_ms = due_ms + 10
        assert not failed(breaker, 100 + message, now_ms, tried=message)

    assert [1, 2, 4, 8, 16, 32, 60, 60, 60] == pauses


def test_what_was_in_hand_counts_and_changes_no_pause() -> None:
    breaker = opened()
    breaker.begin("the trial")

    assert not failed(breaker, 10, 500, tried="another")

    assert "the trial" == breaker.trial
    assert 4 == breaker.failures


def test_a_trial_that_says_nothing_is_followed_by_another_after_the_same_pause() -> None:
    breaker = opened()
    for now_ms in (1_000, 5_000, 9_000):
        breaker.begin("it")
        breaker.undecided(now_ms, "another")
        assert "it" == breaker.trial
        breaker.undecided(now_ms, "it")
        assert now_ms + 1_000 == breaker.due_ms
        assert breaker.may_try(now_ms + 1_000)


def test_one_success_closes_it_and_the_next_pause_is_a_second_again() -> None:
    breaker = opened()
    for trial in range(5):
        breaker.begin(trial)
        failed(breaker, 10 + trial, 100_000 * trial, tried=trial)

    assert breaker.succeeded()
    assert (False, 0, "") == (breaker.is_open, breaker.failures, breaker.cause)
    assert failed(breaker, 1) is failed(breaker, 2) is False
    assert failed(breaker, 3, 777)
    assert 1_777 == breaker.due_ms


def test_the_commonest_cause_is_named_with_its_last_text() -> None:
    breaker = Breaker("orders", 100)
    for message in range(5):
        failed(breaker, message, kind="KeyError")
    failed(breaker, 6)

    assert "KeyError: message 4 (5 of 6)" == breaker.cause


def test_kinds_of_causes_are_bounded() -> None:
    breaker = Breaker("orders", 10_000)
    for message in range(1_000):
        failed(breaker, message, kind=f"Error{message}")

    assert f"{OTHERS} ({1_000 - CAUSES_MAX} of 1000)" == breaker.cause


def test_another_limit_holds_at_once() -> None:
    breaker = Breaker("orders", 100)
    for message in range(10):
        failed(breaker, message)

    assert not breaker.adopt(11, 0)
    assert breaker.adopt(10, 0), "it opens"
    assert not breaker.adopt(5, 0), "it stays open"
    assert breaker.adopt(11, 0), "it closes"
    assert 0 == breaker.failures
    for message in range(11):
        failed(breaker, message)
    assert breaker.adopt(0, 0), "it is off"
    assert not breaker.is_open
