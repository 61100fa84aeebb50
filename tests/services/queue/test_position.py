"""Where a queue begins: stored beats policy, and a failure is never "nothing stored"."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, Refused
from framework.model.queue import MessageQueue
from framework.model.subscription import Start
from framework.services.queue.position import StartingPoint, find_start, reached_before
from tests.services.parts import QUEUE, play

NOW_MS = 1_700_000_000_000
HALF_AN_HOUR_MS = 1_800_000


class Brokers:
    """A queue that holds 10 to 90; offset 40 was stored half an hour before now."""

    def __init__(self, stored: int | FrameworkError | None = None, *, lies: int | None = None) -> None:
        self._stored, self._lies = stored, lies
        self.asked: list[object] = []

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        assert ("billing", QUEUE) == (group, queue)
        if isinstance(self._stored, FrameworkError):
            raise self._stored
        return self._stored

    async def min_offset(self, queue: MessageQueue) -> int:
        self.asked.append("min")
        return 10 if self._lies is None else self._lies

    async def max_offset(self, queue: MessageQueue) -> int:
        self.asked.append("max")
        return 90 if self._lies is None else self._lies

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        self.asked.append(timestamp_ms)
        return 40 if self._lies is None else self._lies


async def now_at(broker: str) -> int:
    assert QUEUE.broker == broker
    return NOW_MS


def find(brokers: Brokers, policy: Start) -> Callable[[], Awaitable[StartingPoint]]:
    return lambda: find_start(cast("Any", brokers), "billing", QUEUE, policy, now_at)


def found(brokers: Brokers, policy: Start) -> StartingPoint:
    async def story() -> StartingPoint:
        return await find(brokers, policy)()

    return play(story)


POLICIES: list[Start] = [Start("first"), Start("last"), Start("age", HALF_AN_HOUR_MS), Start("time", 5)]


@pytest.mark.parametrize(
    ("expected", "asked", "policy"),
    [
        (StartingPoint(10, "nothing stored, policy first -> 10", None, 90), ["max", "min"], Start("first")),
        (StartingPoint(90, "nothing stored, policy last -> 90", None, 90), ["max"], Start("last")),
        (
            StartingPoint(40, "nothing stored, policy the last 30m -> 40", None, 90),
            ["max", NOW_MS - HALF_AN_HOUR_MS],
            Start("age", HALF_AN_HOUR_MS),
        ),
        (
            StartingPoint(40, "nothing stored, policy since 1600000000000 -> 40", None, 90),
            ["max", 1_600_000_000_000],
            Start("time", 1_600_000_000_000),
        ),
        (StartingPoint(40, "nothing stored, policy since 0 -> 40", None, 90), ["max", 0], Start("time", 0)),
    ],
)
def test_a_group_never_seen_begins_where_its_policy_says(
    expected: StartingPoint, asked: list[object], policy: Start
) -> None:
    brokers = Brokers(None)

    assert expected == found(brokers, policy)
    assert asked == brokers.asked


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("stored", [0, 55, 1_000_000])
def test_what_is_stored_beats_every_policy(policy: Start, stored: int) -> None:
    """The end is asked for all the same: who begins there has nothing to catch up on."""
    brokers = Brokers(stored)

    assert StartingPoint(stored, f"stored {stored}", stored, 90) == found(brokers, policy)
    assert ["max"] == brokers.asked


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize(
    "error",
    [BrokerUnreachable("no answer"), Refused(1, "system error", request="query offset", peer="127.0.0.1:1")],
    ids=lambda error: type(error).__name__,
)
def test_a_query_that_failed_is_never_taken_for_nothing_stored(policy: Start, error: FrameworkError) -> None:
    """Whoever does so begins at the end after a time-out, and loses everything between."""
    brokers = Brokers(error)

    with pytest.raises(type(error)):
        found(brokers, policy)
    assert [] == brokers.asked


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize(
    "brokers", [Brokers(-1), Brokers(-2), Brokers(None, lies=-1)], ids=["stored", "stored -2", "asked"]
)
def test_an_offset_below_zero_is_the_brokers_error(brokers: Brokers, policy: Start) -> None:
    """Named and asked again; never pulled with, never committed."""
    with pytest.raises(ProtocolError, match=r"orders@broker-a:3: the broker returned invalid offset -\d"):
        found(brokers, policy)


@pytest.mark.parametrize(
    ("expected", "stored", "reached"),
    [
        pytest.param(80, 80, None, id="nothing-known"),
        pytest.param(85, 80, 85, id="its-broker-forgot"),
        pytest.param(90, 80, 90, id="all-of-it"),
        pytest.param(80, 80, 60, id="another-went-on"),
        pytest.param(80, 80, 91, id="the-queue-lost-its-end"),
        pytest.param(10, None, 85, id="the-topic-may-be-another"),
    ],
)
def test_who_had_the_queue_goes_on_where_it_was(expected: int, stored: int | None, reached: int | None) -> None:
    start = StartingPoint(10 if stored is None else stored, "as the broker says", stored, end=90)

    assert expected == reached_before(start, reached).offset
    assert stored == reached_before(start, reached).stored, "what is above that is still to be committed"
