"""HeartbeatLoop: at once where somebody does not know us, else each thirty seconds."""

from __future__ import annotations

import asyncio

from framework.errors import BrokerUnreachable, FrameworkError
from framework.services.heartbeat import HeartbeatLoop
from framework.wire.bodies.heartbeat import Heartbeat
from tests.services.parts import EvenChance, LoopClock, end, play, play_logged, start, told

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


class Brokers:
    def __init__(self, *addresses: str, seconds: float = 0.0) -> None:
        self.known = list(addresses)
        self.failing: dict[str, FrameworkError] = {}
        self.beats: list[tuple[float, str, str]] = []
        """When, to whom, and as whom."""
        self._seconds = seconds

    def addresses(self) -> list[str]:
        return list(self.known)

    async def heartbeat(self, address: str, heartbeat: Heartbeat) -> object:
        self.beats.append((round(asyncio.get_running_loop().time(), 1), address, heartbeat.client_id))
        await asyncio.sleep(self._seconds)
        if address in self.failing:
            raise self.failing[address]
        return None


class Fixture:
    def __init__(self, *addresses: str, seconds: float = 0.0) -> None:
        self.brokers = Brokers(*addresses, seconds=seconds)
        self.accepted = 0
        self.client = "me@1"
        self.loop = HeartbeatLoop(
            self.brokers, lambda: Heartbeat(client_id=self.client), LoopClock(), EvenChance(), self._accept
        )
        self.task = start(self.loop.run())

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
