"""HeartbeatLoop: at once where somebody does not know us, else each thirty seconds."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from framework.errors import BrokerUnreachable, FrameworkError, NotConnected, Refused
from framework.model.subscription import Subscription
from framework.services.heartbeat import NONE_KNOWN, HeartbeatLoop
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat, subscriptions_of
from framework.wire.requests.group import HeartbeatAnswer
from tests.services.parts import EvenChance, Line, LoopClock, end, play, play_logged, start, told

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


class Brokers:
    def __init__(self, *addresses: str, seconds: float = 0.0) -> None:
        self.known = list(addresses)
        self.failing: dict[str, FrameworkError] = {}
        self.beats: list[tuple[float, str, str]] = []
        """When, to whom, and as whom."""
        self.short: list[tuple[float, bool]] = []
        """When one was sent, and whether it had no subscriptions."""
        self.answer = HeartbeatAnswer()
        self.refuses_short_at = 0.0
        """From when on a short one is told that something has changed, once."""
        self._seconds = seconds

    def addresses(self) -> list[str]:
        return list(self.known)

    async def heartbeat(self, address: str, heartbeat: Heartbeat) -> HeartbeatAnswer:
        self.beats.append((round(asyncio.get_running_loop().time(), 1), address, heartbeat.client_id))
        await asyncio.sleep(self._seconds)
        if address in self.failing:
            raise self.failing[address]
        now = asyncio.get_running_loop().time()
        self.short.append((round(now, 1), heartbeat.is_without_subscriptions))
        assert bool(heartbeat.fingerprint) or not heartbeat.is_without_subscriptions
        if heartbeat.is_without_subscriptions and 0 < self.refuses_short_at <= now:
            self.refuses_short_at = 0
            return HeartbeatAnswer(supports_v2=True, subscription_changed=True)
        return self.answer


class Fixture:
    def __init__(
        self, *addresses: str, seconds: float = 0.0, shortens: bool = False, why_none: FrameworkError | None = None
    ) -> None:
        self.brokers = Brokers(*addresses, seconds=seconds)
        self.topics = ["orders"]
        self.accepted = 0
        self.client = "me@1"
        self.loop = HeartbeatLoop(
            cast("Any", self.brokers), self._describe, LoopClock(), EvenChance(), self._accept, shortens=shortens,
            why_none=lambda: why_none,
        )  # fmt: skip
        self.task = start(self.loop.run())

    def _describe(self) -> Heartbeat:
        subscriptions = subscriptions_of(Subscription(topic, "*", 1) for topic in self.topics)
        return Heartbeat(client_id=self.client, consumers=(ConsumerData(group="g", subscriptions=subscriptions),))

    def _accept(self, address: str) -> None:
        self.accepted += 1

    def at(self, address: str) -> list[float]:
        return [when for when, to, _ in self.brokers.beats if to == address]


def test_every_broker_hears_from_us_at_once_and_each_thirty_seconds() -> None:
    async def story() -> None:
        it = Fixture(A, B)
        await asyncio.sleep(65)
        await end(it.task)
        assert [0.0, 30.0, 60.0] == it.at(A) == it.at(B)
        assert 6 == it.accepted

    play(story)


def test_a_broker_that_appears_hears_from_us_within_a_second_of_being_looked_for() -> None:
    async def story() -> None:
        it = Fixture()
        await asyncio.sleep(10.5)
        it.brokers.known.append(A)
        await asyncio.sleep(1.1)
        await end(it.task)
        ((when, _, _),) = it.brokers.beats
        assert 10.5 <= when <= 11.6

    play(story)


def test_a_wish_is_answered_at_once_by_one_broker_or_by_all() -> None:
    async def story() -> None:
        it = Fixture(A, B)
        await asyncio.sleep(10)
        it.loop.now(A)
        await asyncio.sleep(1)
        it.client = "me@1, changed"
        it.loop.now()
        await asyncio.sleep(1)
        await end(it.task)
        assert [0.0, 10.0, 11.0] == it.at(A)
        assert [0.0, 11.0] == it.at(B)
        assert "me@1, changed" == it.brokers.beats[-1][2], "never a stale picture"

    play(story)


def test_a_heartbeat_that_takes_long_is_not_doubled_and_holds_up_nobody() -> None:
    async def story() -> None:
        it = Fixture(A, B, seconds=3)
        await asyncio.sleep(29)
        await end(it.task)
        assert [0.0] == it.at(A) == it.at(B)

    play(story)


def test_a_failing_broker_is_tried_less_and_less_often_and_named_on_entering_and_leaving() -> None:
    async def story() -> None:
        it = Fixture(A, B)
        it.brokers.failing[A] = BrokerUnreachable("no answer")
        await asyncio.sleep(6)
        assert [0.0, 0.8, 2.3, 5.3] == it.at(A)
        assert [0.0] == it.at(B)
        it.brokers.failing.clear()
        await asyncio.sleep(10)
        await end(it.task)
        assert [11.3] == it.at(A)[4:]
        assert 2 == it.accepted

    _, lines = play_logged(story)
    assert [("heartbeat failed", A), ("heartbeat recovered", A)] == told(lines, "broker")
    assert [11] == [line["after_ms"] // 1000 for line in lines if line["event"] == "heartbeat recovered"]


def test_one_to_which_there_is_no_connection_hears_from_us_soon_after_there_may_be_one() -> None:
    """How often an address is dialled is decided elsewhere; at a start nobody else asks for it."""

    async def story() -> None:
        it = Fixture(A)
        it.brokers.failing[A] = NotConnected("connection refused")
        await asyncio.sleep(300)
        it.brokers.failing.clear()
        await asyncio.sleep(2)
        await end(it.task)
        assert 1 == it.accepted

    play(story)


def noted(lines: list[Line]) -> list[tuple[list[str], int, str]]:
    """What is said again and again: of which brokers, since how many seconds, and why."""
    found = [line for line in lines if line["event"] == "heartbeat not accepted"]
    assert all(line["log_level"] == "warning" for line in found)
    return [(line["brokers"], line["since_ms"] // 1000, line["reason"]) for line in found]


def test_who_takes_none_is_said_once_a_minute_in_one_line_for_all_until_they_do() -> None:
    async def story() -> None:
        it = Fixture(A, B)
        it.brokers.failing[B] = NotConnected("connection refused")
        await asyncio.sleep(40)
        it.brokers.failing[A] = Refused(1, "not you", request="HEART_BEAT (34)", peer=A)
        await asyncio.sleep(100)
        it.brokers.failing.clear()
        await asyncio.sleep(120)
        await end(it.task)

    _, lines = play_logged(story)
    assert [([B], 60, "connection refused"), ([B, A], 120, "connection refused")] == noted(lines)
    loud = [(line["event"], line["broker"]) for line in lines if "broker" in line and line["log_level"] != "debug"]
    assert [("heartbeat failed", A), ("heartbeat recovered", A)] == loud, (
        "what was said where it arose is not said here"
    )


def test_a_broker_that_no_route_names_any_more_is_not_missed() -> None:
    async def story() -> None:
        it = Fixture(A, B)
        it.brokers.failing[B] = NotConnected("connection refused")
        await asyncio.sleep(30)
        it.brokers.known.remove(B)
        await asyncio.sleep(120)
        await end(it.task)

    _, lines = play_logged(story)
    assert [] == noted(lines)


@pytest.mark.parametrize(
    ("why", "reason", "begins_s"),
    [(None, NONE_KNOWN, 0), (NotConnected("no name server answers"), "no name server answers", 60)],
)
def test_that_no_broker_is_known_is_said_at_once_unless_it_was_and_each_minute(
    why: FrameworkError | None, reason: str, begins_s: int
) -> None:
    async def story() -> None:
        it = Fixture(why_none=why)
        await asyncio.sleep(130)
        it.brokers.known.append(A)
        await asyncio.sleep(100)
        await end(it.task)
        assert it.accepted

    _, lines = play_logged(story)
    assert [([], seconds, reason) for seconds in range(begins_s, 121, 60)] == noted(lines)


def test_a_broker_that_went_is_forgotten_and_greeted_when_it_returns() -> None:
    async def story() -> None:
        it = Fixture(A, B)
        await asyncio.sleep(31)
        it.brokers.known.remove(B)
        await asyncio.sleep(31)
        it.brokers.known.append(B)
        it.loop.now(A)
        await asyncio.sleep(1)
        await end(it.task)
        assert [0.0, 30.0, 62.0] == it.at(B)

    play(story)


def test_when_the_loop_ends_no_heartbeat_is_left_behind() -> None:
    async def story() -> None:
        it = Fixture(A, seconds=100)
        await asyncio.sleep(1)
        await end(it.task)
        await asyncio.sleep(200)
        assert 0 == it.accepted

    play(story)


KNOWS = HeartbeatAnswer(supports_v2=True)
WHOLE, SHORT = False, True


def test_without_the_setting_every_one_is_whole_and_has_no_fingerprint() -> None:
    async def story() -> None:
        it = Fixture(A)
        it.brokers.answer = KNOWS
        await asyncio.sleep(95)
        await end(it.task)
        assert [WHOLE] * 4 == [is_short for _, is_short in it.brokers.short]

    play(story)


def test_short_ones_follow_where_a_broker_understands_them_and_knows_what_we_want() -> None:
    async def story() -> None:
        for answer, then in (
            (KNOWS, SHORT),
            (HeartbeatAnswer(), WHOLE),
            (HeartbeatAnswer(supports_v2=True, subscription_changed=True), WHOLE),
        ):
            it = Fixture(A, shortens=True)
            it.brokers.answer = answer
            await asyncio.sleep(95)
            await end(it.task)
            assert [WHOLE, then, then, then] == [is_short for _, is_short in it.brokers.short]
            assert 4 == it.accepted

    play(story)


def test_a_short_one_that_found_a_change_is_followed_by_a_whole_one_at_once() -> None:
    async def story() -> None:
        it = Fixture(A, shortens=True)
        it.brokers.answer = KNOWS
        it.brokers.refuses_short_at = 50.0
        await asyncio.sleep(95)
        await end(it.task)
        assert [(0.0, WHOLE), (30.0, SHORT), (60.0, SHORT), (60.0, WHOLE), (90.0, SHORT)] == it.brokers.short

    play(story)


def test_whatever_is_wished_for_and_whatever_says_something_new_is_whole() -> None:
    async def story() -> None:
        it = Fixture(A, shortens=True)
        it.brokers.answer = KNOWS
        await asyncio.sleep(35)
        it.loop.now(A)  # a new connection
        await asyncio.sleep(10)
        it.loop.now()
        await asyncio.sleep(10)
        it.topics.append("payments")  # and nobody said so
        await asyncio.sleep(55)
        await end(it.task)
        assert [(0, WHOLE), (30, SHORT), (35, WHOLE), (45, WHOLE), (75, WHOLE), (105, SHORT)] == it.brokers.short

    play(story)


def test_a_connection_that_is_new_by_the_time_of_the_answer_is_told_all() -> None:
    async def story() -> None:
        it = Fixture(A, shortens=True, seconds=2)
        it.brokers.answer = KNOWS
        await asyncio.sleep(1)
        it.loop.now(A)
        await asyncio.sleep(40)
        await end(it.task)
        assert [WHOLE, WHOLE, SHORT] == [is_short for _, is_short in it.brokers.short]

    play(story)


def test_after_a_failure_all_is_said_again() -> None:
    async def story() -> None:
        it = Fixture(A, shortens=True)
        it.brokers.answer = KNOWS
        await asyncio.sleep(35)
        it.brokers.failing[A] = BrokerUnreachable("no answer")
        await asyncio.sleep(26)
        it.brokers.failing.clear()
        await asyncio.sleep(40)
        await end(it.task)
        assert [WHOLE, SHORT, WHOLE, SHORT] == [is_short for _, is_short in it.brokers.short]

    play(story)
