"""Long polls end once: by a message they may want, at their deadline exactly, or with their connection."""

from __future__ import annotations

from typing import Any, ClassVar

from framework.broker.answers import Hold
from framework.broker.holds import Holds
from framework.broker.records import encode
from framework.broker.store.queues import Queue
from framework.model import sql92
from framework.wire.stored import Record
from tests.broker.client_lab import FakeClient
from tests.broker.store_lab import HandClock, HandTimers, fake_record


class _Lab:
    def __init__(self) -> None:
        self.clock = HandClock(0)
        self.timers = HandTimers(self.clock)
        self.woken: list[tuple[int, object]] = []
        self.holds = Holds(self.timers)

    def park(self, timeout_ms: int, *, client: Any = None, number: int = 0, **wish: Any) -> object:
        request = object()
        self.holds.park(
            Hold("t", number, timeout_ms, **wish), client or FakeClient(), {},
            lambda: self.woken.append((self.clock.ms, request)),
        )  # fmt: skip
        return request

    def arrive(self, tags: list[int]) -> None:
        """Messages with these tags in the first queue."""
        rows = [(i, 0, 0, tag, 0, bytearray(fake_record(b""))) for i, tag in enumerate(tags)]
        self.holds.arrived(Queue("broker-a", "t", 0, 0), rows)

    def send(self, *messages: dict[str, str]) -> None:
        """Messages with these properties in the first queue."""
        rows = [
            (i, 0, 0, 0, 0, bytearray(encode(Record(topic="t", body=b"x", properties=each))))
            for i, each in enumerate(messages)
        ]
        self.holds.arrived(Queue("broker-a", "t", 0, 0), rows)


def test_a_hold_ends_at_its_deadline_to_the_millisecond() -> None:
    """RocketMQ looks every 5 s: 3 s asked were answered after 6.8 s."""
    lab = _Lab()
    late, early = lab.park(3000), lab.park(250)
    lab.timers.advance(10_000)

    assert lab.woken == [(250, early), (3000, late)]
    assert len(lab.holds) == 0


def test_a_message_wakes_all_who_wait_in_its_queue_once() -> None:
    lab = _Lab()
    first, second, other = lab.park(9000), lab.park(9000), lab.park(9000, number=1)
    lab.arrive([1, 2, 3])
    lab.arrive([4])

    assert [request for _, request in lab.woken] == [first, second]
    assert len(lab.holds) == 1
    lab.timers.advance(9000)

    assert [request for _, request in lab.woken] == [first, second, other]


def test_only_tags_that_are_waited_for_wake() -> None:
    lab = _Lab()
    seven, all_tags = lab.park(9000, tags=frozenset({7})), lab.park(9000)
    lab.arrive([8, 9])

    assert [request for _, request in lab.woken] == [all_tags]
    lab.arrive([8, 7])

    assert [request for _, request in lab.woken] == [all_tags, seven]


def test_only_messages_that_a_condition_is_true_of_wake() -> None:
    lab = _Lab()
    heavy = lab.park(9000, condition=sql92.parse("weight > 5"))
    red = lab.park(9000, condition=sql92.parse("colour = 'red' AND weight IS NOT NULL"))
    lab.send({"weight": "5"}, {"colour": "red"}, {"weight": "no number"})
    assert lab.woken == []

    lab.send({"weight": "1"}, {"weight": "6"})
    assert [request for _, request in lab.woken] == [heavy]
    lab.send({"weight": "3", "colour": "red"})
    assert [request for _, request in lab.woken] == [heavy, red]


def test_a_condition_is_asked_once_a_message_however_many_pulls_wait_with_it() -> None:
    """A hundred groups with one filter, and each message looked at until the first that fits."""

    class Counting:
        asked: ClassVar[list[str]] = []
        text, nodes, searches = "n > 2", 3, 0

        def matches(self, properties: dict[str, str]) -> bool:
            self.asked.append(properties["n"])
            return int(properties["n"]) > 2

    lab, condition = _Lab(), Counting()
    for _ in range(100):
        lab.park(9000, condition=condition)
    lab.send(*({"n": str(n)} for n in range(10)))

    assert (len(lab.woken), Counting.asked) == (100, ["0", "1", "2", "3"])


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
        lab.arrive([0])

    assert len(lab.woken) == 5000
    assert len(lab.holds._deadlines) < 1100


def test_one_connection_may_have_so_many_waiting_and_others_are_not_touched_by_it() -> None:
    lab = _Lab()
    lab.holds = Holds(lab.timers, a_client_max=2)
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
