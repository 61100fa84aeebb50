"""Where queues were that were left while their broker was away."""

from __future__ import annotations

from framework.core.offsets import Reached
from framework.model.queue import MessageQueue

ONE, TWO = (MessageQueue("orders", "broker-b", number) for number in (1, 2))


def test_what_is_noted_is_known_once() -> None:
    reached = Reached()
    reached.note(ONE, 7)

    assert [7, None, None] == [reached.take(ONE), reached.take(ONE), reached.take(TWO)]


def test_a_queue_that_another_member_has_is_forgotten_and_one_that_nobody_can_have_is_not() -> None:
    reached = Reached()
    reached.note(ONE, 7)
    reached.note(TWO, 8)
    reached.offered([], [])
    reached.offered([ONE, TWO], [TWO])

    assert [None, 8] == [reached.take(ONE), reached.take(TWO)]
