"""Long polls end once: by a message they may want, at their deadline exactly, or with their connection."""

from __future__ import annotations

from typing import Any, cast

from framework.broker.holds import Holds
from framework.broker.request import Hold, Request
from framework.wire.command import Command
from tests.broker.client_lab import FakeClient
from tests.broker.store_lab import HandClock, HandTimers


class _Lab:
    def __init__(self) -> None:
        self.clock = HandClock(0)
        self.timers = HandTimers(self.clock)
        self.woken: list[tuple[int, Request]] = []
        self.holds = Holds(self.timers, lambda request: self.woken.append((self.clock.ms, request)))

    def park(
        self, timeout_ms: int, *, tags: frozenset[int] | None = None, client: Any = None, number: int = 0
    ) -> Request:
        request = Request(Command(11), client or FakeClient(), cast("Any", None))
        self.holds.park(request, Hold("t", number, tags, timeout_ms))
        return request


def test_a_hold_ends_at_its_deadline_to_the_millisecond() -> None:
    """RocketMQ looks every 5 s: 3 s asked were answered after 6.8 s."""
    lab = _Lab()
    late, early = lab.park(3000), lab.park(250)
    lab.timers.advance(10_000)

    assert lab.woken == [(250, early), (3000, late)]
    assert len(lab.holds) == 0
    assert late.was_held


def test_a_message_wakes_all_who_wait_in_its_queue_once() -> None:
    lab = _Lab()
    first, second, other = lab.park(9000), lab.park(9000), lab.park(9000, number=1)
    lab.holds.arrived("t", 0, [1, 2, 3])
    lab.holds.arrived("t", 0, [4])

    assert [request for _, request in lab.woken] == [first, second]
    assert len(lab.holds) == 1
    lab.timers.advance(9000)

    assert [request for _, request in lab.woken] == [first, second, other]


def test_only_tags_that_are_waited_for_wake() -> None:
    lab = _Lab()
    seven, all_tags = lab.park(9000, tags=frozenset({7})), lab.park(9000)
    lab.holds.arrived("t", 0, [8, 9])

    assert [request for _, request in lab.woken] == [all_tags]
    lab.holds.arrived("t", 0, [8, 7])

    assert [request for _, request in lab.woken] == [all_tags, seven]


def test_a_closed_connection_s_holds_are_dropped_without_an_answer() -> None:
    lab = _Lab()
    gone = FakeClient()
    lab.park(500, client=gone)
    stays = lab.park(500)
    lab.holds.forget(gone)
    lab.timers.advance(1000)

    assert [request for _, request in lab.woken] == [stays]


def test_stopping_wakes_everybody_and_leaves_no_timer() -> None:
    lab = _Lab()
    requests = [lab.park(500), lab.park(600, number=4)]
    lab.holds.end_all()
    lab.timers.advance(1000)

    assert lab.woken == [(0, requests[0]), (0, requests[1])]


def test_holds_that_were_woken_do_not_pile_up_until_their_deadlines() -> None:
    """A queue with 5,000 messages a second would leave 75,000 entries of 15 s behind."""
    lab = _Lab()
    for _ in range(5000):
        lab.park(15_000)
        lab.holds.arrived("t", 0, [0])

    assert len(lab.woken) == 5000
    assert len(lab.holds._deadlines) < 1100


def test_one_connection_may_have_so_many_waiting_and_others_are_not_touched_by_it() -> None:
    lab = _Lab()
    lab.holds = Holds(lab.timers, lambda request: None, a_client_max=2)
    greedy, other = FakeClient(), FakeClient()
    lab.park(1000, client=greedy)
    assert lab.holds.has_room(greedy)
    lab.park(5000, client=greedy)
    assert (lab.holds.has_room(greedy), lab.holds.has_room(other)) == (False, True)

    lab.timers.advance(1000)
    assert lab.holds.has_room(greedy)
    lab.park(5000, client=greedy)
    lab.holds.forget(greedy)
    assert lab.holds.has_room(greedy)
    assert lab.holds._by_client == {}
