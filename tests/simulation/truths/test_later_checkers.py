"""Checkers of what a group is told while it runs, of where it begins, and of when retries come back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation.checkers import begins_where_it_was, no_more_than_asked, parked_go_at_once, retries_wait
from tests.simulation.facts import (
    Acquired,
    Committed,
    Copied,
    Fact,
    Fault,
    Finished,
    PassedOver,
    Remade,
    Reset,
    Resized,
    Said,
    Skipped,
    Started,
)
from tests.simulation.history import History
from tests.simulation.ways.facts import Repeated

QUEUE = MessageQueue("orders", "broker-a", 0)


def history(*facts: Fact) -> History:
    return History(0, facts=list(facts), groups=["billing"], delays_ms=(100, 200, 300, 600))


def started(offset: int, at: float = 1.0, *, attempt: int = 1) -> Started:
    return Started(at, "a.1", "billing", f"m{offset}", QUEUE, offset, attempt)


def finished(offset: int, at: float = 1.0, outcome: str = "ok", *, attempt: int = 1) -> Finished:
    return Finished(at, "a.1", "billing", f"m{offset}", QUEUE, offset, attempt, outcome)


def resized(size: int, at: float = 1.0) -> Resized:
    return Resized(at, "a.1", "billing", size)


def said(violations: list[Violation]) -> str:
    return "; ".join(violation.fact for violation in violations)


# -- no more than asked


def test_a_paused_group_starts_nothing() -> None:
    assert [] == list(no_more_than_asked(history(started(0), resized(0), finished(0), resized(2), started(1))))
    assert "which is paused" in said(list(no_more_than_asked(history(resized(0), started(0)))))


def test_a_thread_may_be_a_little_late() -> None:
    threads = history(resized(0), started(0, 2.0))
    threads.threaded = {"billing"}
    assert [] == list(no_more_than_asked(threads))
    threads.facts.append(started(1, 9.0))
    assert "which is paused" in said(list(no_more_than_asked(threads)))


def test_a_pool_that_was_made_smaller_starts_nothing_before_it_is() -> None:
    running = (started(0), started(1), started(2), resized(2))

    assert [] == list(no_more_than_asked(history(*running, finished(0), finished(1), started(3))))
    assert "as the 3th at once, and 2 may" in said(list(no_more_than_asked(history(*running, finished(0), started(3)))))
    in_batches = history(*running, started(3))
    in_batches.batched = {"billing"}
    assert [] == list(no_more_than_asked(in_batches))


# -- begins where it was


def acquired(offset: int, stored: int | None, at: float = 50.0) -> Acquired:
    return Acquired(at, "a.1", "billing", str(QUEUE), offset, stored=stored)


def committed(offset: int, before: int | None, at: float) -> Committed:
    return Committed(at, "broker.1", "b.1", "billing", QUEUE, offset, before=before)


def test_a_queue_begins_at_what_is_stored() -> None:
    assert [] == list(begins_where_it_was(history(acquired(7, 7))))
    assert "began orders@broker-a:0 for billing at 0, and 7 was stored" in said(
        list(begins_where_it_was(history(acquired(0, 7))))
    )
    assert 1 == len(list(begins_where_it_was(history(acquired(90, 7)))))


def test_a_queue_begins_at_what_was_stored_when_it_was_asked_for() -> None:
    assert [] == list(begins_where_it_was(history(committed(7, 5, 49.0), acquired(5, 7))))
    assert [] == list(begins_where_it_was(history(committed(7, None, 49.0), acquired(0, 7))))
    assert 1 == len(list(begins_where_it_was(history(committed(7, 5, 20.0), acquired(5, 7)))))


def test_a_queue_begins_anywhere_after_an_administrator_was_at_it() -> None:
    assert [] == list(begins_where_it_was(history(Reset(45.0, "admin", "billing", QUEUE, 3), acquired(3, 7))))
    assert [] == list(begins_where_it_was(history(Remade(45.0, "admin", "orders"), acquired(0, 7))))


@pytest.mark.parametrize(
    "done",
    [
        pytest.param([finished(5)], id="handled"),
        pytest.param([finished(5, outcome="failed"), Copied(2.0, "broker.1", "billing", "m5")], id="dead-letter"),
        pytest.param([Repeated(1.0, "a.1", "billing", "m5", QUEUE, 5)], id="duplicate"),
        pytest.param([Skipped(1.0, "a.1", "billing", str(QUEUE), 5, 6)], id="skipped"),
        pytest.param([PassedOver(1.0, "a.1", "billing", str(QUEUE), (5,))], id="done-by-its-previous-owner"),
        pytest.param([], id="a-tag-that-its-group-does-not-want"),
    ],
)
def test_who_takes_a_queue_again_goes_on_behind_all_that_it_is_done_with(done: list[Fact]) -> None:
    """Whatever became of the messages: its broker was started anew before the process could commit them."""
    told = history(finished(4), *done, acquired(6, 5))
    told.passed_by = {} if done else {("billing", str(QUEUE)): {5}}

    assert [] == list(begins_where_it_was(told))


@pytest.mark.parametrize(
    "done",
    [
        pytest.param([finished(5), finished(6)], id="one-is-missing"),
        pytest.param([finished(5), finished(6), finished(7, outcome="failed")], id="one-has-no-copy"),
        pytest.param([replace(finished(offset), who="b.1") for offset in (5, 6, 7)], id="another-process-was-there"),
    ],
)
def test_who_takes_a_queue_again_passes_nothing_that_is_not_done(done: list[Fact]) -> None:
    assert "at 8, and 5 was stored" in said(list(begins_where_it_was(history(*done, acquired(8, 5)))))


# -- retries wait


def test_a_retry_comes_no_sooner_than_its_delay() -> None:
    """The first retry has the third delay."""
    assert [] == list(retries_wait(history(finished(0, 1.0, "failed"), started(0, 1.3, attempt=2))))
    assert "0.200s after it failed, and not 0.3s" in said(
        list(retries_wait(history(finished(0, 1.0, "failed"), started(0, 1.2, attempt=2))))
    )
    second = history(finished(0, 1.0, "failed", attempt=2), started(0, 1.5, attempt=3))
    assert 1 == len(list(retries_wait(second)))
    second.limited = {"billing"}
    assert [] == list(retries_wait(second)), "what took too long comes back by the first delay"
    second.limited = set()
    second.facts.insert(0, Fault(0.5, "broker", "clock"))
    assert [] == list(retries_wait(second))


# -- parked messages


def line(event: str, at: float) -> Said:
    return Said(at, "a.1", "info", event, {"group": "billing", "queue": str(QUEUE)})


def test_what_is_said_to_be_sent_has_a_copy() -> None:
    """A line alone proves nothing: a queue that was left had nothing sent, and said so in the same words."""
    healed, parked, sent = Fault(40.0, "", "healed"), line("message parked", 30.0), line("parked messages sent", 41.0)

    assert "no broker has stored a copy" in said(list(parked_go_at_once(history(parked, healed, sent))))
    copied = Copied(41.0, "broker.1", "billing", "m0")
    assert [] == list(parked_go_at_once(history(parked, healed, copied, sent)))
    of_before = Copied(1.0, "broker.1", "billing", "m0")
    assert "no broker has stored a copy" in said(list(parked_go_at_once(history(of_before, parked, healed, sent))))


def test_what_was_given_up_is_the_next_owner_s() -> None:
    healed, parked, left = (
        Fault(40.0, "", "healed"),
        line("message parked", 30.0),
        line("parked messages given up", 99.0),
    )
    again, sent = line("message parked", 150.0), line("parked messages sent", 152.0)

    copied = Copied(151.0, "broker.1", "billing", "m0")
    assert [] == list(parked_go_at_once(history(parked, healed, left, again, copied, sent)))
    late = line("parked messages sent", 99.0)
    assert "s after it could" in said(
        list(parked_go_at_once(history(parked, healed, Copied(98.0, "b", "billing", "m"), late)))
    )
