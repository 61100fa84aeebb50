"""The checker of order: silent about a good history, and exact about what is wrong with a bad one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.model.queue import MessageQueue
from tests.simulation.checkers import order_kept
from tests.simulation.facts import Acquired, ByHand, Copied, Fact, Finished, Started
from tests.simulation.history import History

QUEUE = MessageQueue("orders", "broker-a", 0)
A, B = "app-1.1", "app-2.1"
LAST = 17
"""An attempt behind which there is no retry: the message becomes a dead letter."""


def broken(*facts: Fact, orderly: bool = True, keys: int = 1) -> list[str]:
    history = History(0, facts=list(facts), groups=["inventory"], orderly={"inventory": keys} if orderly else {})
    return [str(violation) for violation in order_kept(history)]


def taken(offset: int, who: str = A) -> Acquired:
    return Acquired(0.0, who, "inventory", str(QUEUE), offset)


def started(offset: int, who: str = A, holder: str | None = None) -> Started:
    return Started(1.0, who, "inventory", f"m{offset}", QUEUE, offset, 1, who if holder is None else holder)


def finished(offset: int, who: str = A, outcome: str = "ok", attempt: int = 1) -> Finished:
    return Finished(2.0, who, "inventory", f"m{offset}", QUEUE, offset, attempt, outcome)


def test_one_after_the_other_is_in_order() -> None:
    assert [] == broken(taken(5), started(5), finished(5), started(6), finished(6))


def test_what_failed_may_start_again_and_then_the_next() -> None:
    again = (started(5), finished(5, outcome="failed"))

    assert [] == broken(taken(5), *again, *again, started(5), finished(5), started(6))
    last = (started(5), finished(5, outcome="failed", attempt=LAST))
    assert [] == broken(taken(5), *last, Copied(2.0, "broker.1", "inventory", "m5"), started(6))


def test_another_owner_begins_where_it_took_the_queue() -> None:
    assert [] == broken(taken(5), started(5), finished(5), taken(5, B), started(5, B), finished(5, B), started(6, B))


def test_each_key_is_in_an_order_of_its_own() -> None:
    """Of two keys the even offsets are one and the odd ones the other."""
    failing = (taken(5), started(5), finished(5, outcome="failed"))

    assert [] == broken(*failing, started(6), started(5), finished(5), started(7), finished(6), started(8), keys=2)
    assert [] == broken(*failing, started(6), finished(6), taken(5), started(6), finished(6), started(8), keys=2)
    assert "5 was next" in "".join(broken(*failing, started(7), keys=2))
    assert "while 6 was at work" in "".join(broken(taken(5), started(6), started(6), keys=2))


def test_under_anothers_lock_nothing_starts_but_where_nobody_can_know_of_it() -> None:
    unknown = replace(started(5, holder=B), is_half_open=True)

    assert "app-1.1 started orders@broker-a:0 5 for inventory while app-2.1 held the lock" in "".join(
        broken(taken(5), started(5, holder=B))
    )
    assert [] == broken(taken(5), unknown)


def test_what_ends_from_an_earlier_taking_moves_nothing() -> None:
    assert [] == broken(taken(5), started(5), taken(5), finished(5), started(5), finished(5), started(6))


@pytest.mark.parametrize(
    ("expected", "facts"),
    [
        ("6 was next", (taken(5), started(5), finished(5), started(7))),
        ("5 was next", (taken(5), started(5), finished(5, outcome="failed"), started(6))),
        ("5 was next", (taken(5), started(6))),
        ("6 was next", (taken(5), started(5), finished(5), started(5))),
        ("while 5 was at work", (taken(5), started(5), started(5))),
        (f"while {B} held the lock", (taken(5), started(5, holder=B))),
        ("had never taken the queue", (started(5),)),
    ],
)
def test_what_is_out_of_order_is_named(expected: str, facts: tuple[Fact, ...]) -> None:
    found = broken(*facts)

    assert 1 == len(found)
    assert expected in found[0]


def test_a_lock_that_nobody_holds_is_nobody_else_s() -> None:
    """A broker that was started anew has forgotten it; whoever had it may be at work."""
    assert [] == broken(taken(5), started(5, holder=""))


def test_other_groups_have_no_order() -> None:
    assert [] == broken(started(9), started(3), orderly=False)


def broken_in_batches(*facts: Fact, keys: int = 1) -> list[str]:
    history = History(0, facts=list(facts), groups=["inventory"], orderly={"inventory": keys}, batched={"inventory"})
    return [str(violation) for violation in order_kept(history)]


def test_messages_of_a_batch_start_together_and_the_next_behind_them() -> None:
    batch = (started(5), started(6), finished(5), finished(6))

    assert [] == broken_in_batches(taken(5), *batch, started(7), started(8))
    assert "6 was next in its batch" in "".join(broken_in_batches(taken(5), started(5), started(7)))
    assert "while 5 was at work" in "".join(broken(taken(5), started(5), started(6)))


def test_a_batch_of_a_key_holds_the_next_of_that_key() -> None:
    assert [] == broken_in_batches(taken(5), started(5), started(7), started(6), started(8), keys=2)
    assert "7 was next in its batch" in "".join(broken_in_batches(taken(5), started(5), started(9), keys=2))


def test_what_failed_in_a_batch_comes_again_with_all_behind_it() -> None:
    """Also what ended well; unless the one that failed is given up, and then only itself does not."""
    batch = (started(5), started(6), started(7), finished(5), finished(6, outcome="failed"), finished(7))
    copied = Copied(2.0, "broker.1", "inventory", "m6")

    assert [] == broken_in_batches(taken(5), *batch, started(6), started(7), finished(6), finished(7), started(8))
    last = (*batch[:4], finished(6, outcome="failed", attempt=LAST), finished(7))
    assert [] == broken_in_batches(taken(5), *last, copied, started(8))
    assert "6 was next" in "".join(broken_in_batches(taken(5), *batch, started(7)))
    assert "6 was next" in "".join(broken_in_batches(taken(5), *batch, started(8)))
    again = (started(6), finished(6))
    assert "7 was next" in "".join(broken_in_batches(taken(5), *batch, *again, started(8)))


def test_what_is_taken_back_begins_behind_the_last_commit() -> None:
    def said(offset: int, *, is_commit: bool) -> ByHand:
        return ByHand(2.0, A, "inventory", QUEUE, offset, is_commit)

    handled = (taken(5), started(5), finished(5), said(5, is_commit=True), started(6), finished(6), started(7))
    back = (finished(7, outcome="rolled back"), said(7, is_commit=False))

    assert [] == broken(*handled, *back, started(6), finished(6), started(7))
    assert "6 was next" in "".join(broken(*handled, *back, started(7)))
    assert "6 was next" in "".join(broken(*handled, *back, started(5)))
