"""Benchmarks read the ends of queues only when the broker has added what it stored to them."""

from __future__ import annotations

import pytest

from benchmarks.dispatched import NotDispatched, wait_dispatched


def test_ends_are_asked_for_until_all_messages_are_in_their_queues() -> None:
    answers = iter([[0, 0], [3, 1], [5, 5]])

    assert [5, 5] == wait_dispatched(lambda: next(answers), 10, "filled")


def test_messages_that_never_come_are_an_error() -> None:
    with pytest.raises(NotDispatched, match="topic filled has 9 messages, not 10"):
        wait_dispatched(lambda: [4, 5], 10, "filled", wait_s=0)


def test_too_many_are_an_error_at_once() -> None:
    with pytest.raises(NotDispatched, match="topic filled has 11 messages, not 10"):
        wait_dispatched(lambda: [6, 5], 10, "filled")
