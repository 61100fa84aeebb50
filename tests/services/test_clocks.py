"""ClockLoop and what brokers say of their time, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from framework.client.inquiries import clock_in
from framework.core.broker_time import Reading
from framework.errors import FrameworkError, ProtocolError, Refused
from framework.services.clocks import AlignedClock, ClockLoop
from tests.services.parts import LoopClock, end, play_logged, start, told

HOUR = 3_600_000
NOW = 1_700_000_000_000
DAYS = 86_400_001_000
"""A thousand days and a second."""


class Wall(LoopClock):
    """A machine whose wall clock is off by so much."""

    off_ms = 0

    def now_ms(self) -> int:
        return NOW + self.monotonic_ms() + self.off_ms


@dataclass
class Brokers:
    """Address -> how far its clock is ahead of the truth, or why it does not tell."""

    told: dict[str, int | FrameworkError]
    asked: list[str] = field(default_factory=list)

    def addresses(self) -> list[str]:
        return list(self.told)

    def find(self, broker: str) -> str | None:
        return broker if broker in self.told else None

    async def clock(self, address: str) -> Reading:
        self.asked.append(address)
        await asyncio.sleep(0.01)
        answer = self.told[address]
        if isinstance(answer, FrameworkError):
            raise answer
        now_ms = NOW + int(asyncio.get_running_loop().time() * 1000) + answer
        return Reading(now_ms, now_ms)


def test_a_wrong_clock_is_put_right_and_named_once() -> None:
    async def story() -> None:
        wall = Wall()
        clock = AlignedClock(wall)
        brokers = Brokers({"a": 0, "b": 3, "c": HOUR})
        loop = ClockLoop(clock, cast("Any", brokers))
        wall.off_ms = -HOUR
        assert wall.now_ms() == clock.now_ms(), "nobody has said anything yet"
        await loop.ask()
        task = start(loop.run())
        await asyncio.sleep(1_000)
        assert abs(clock.now_ms() - (NOW + clock.monotonic_ms())) < 200
        assert -HOUR - 50 <= clock.picture().low_ms <= -HOUR <= clock.picture().high_ms <= -HOUR + 200
        assert 4 * 3 == len(brokers.asked), "each five minutes"
        wall.off_ms = 0
        await asyncio.sleep(300)
        assert abs(wall.now_ms() - clock.now_ms()) < 5
        await end(task)

    _, said = play_logged(story)
    assert 1 == told(said).count(("local clock skewed",))
    assert 1 == told(said).count(("local clock recovered",))


def test_brokers_that_do_not_tell_are_named_once_and_stand_in_nobodys_way() -> None:
    async def story() -> None:
        wall = Wall()
        clock = AlignedClock(wall)
        brokers = Brokers({"a": Refused(16, "no permission", request="runtime", peer="a")})
        loop = ClockLoop(clock, cast("Any", brokers))
        await loop.ask()
        task = start(loop.run())
        await asyncio.sleep(100)
        assert 4 == len(brokers.asked), "each half minute"
        assert wall.now_ms() == clock.now_ms()
        assert () == clock.picture().brokers
        brokers.told["a"] = HOUR
        await asyncio.sleep(31)
        assert clock.now_ms() > NOW + HOUR
        brokers.told["a"] = -HOUR
        await asyncio.sleep(301)
        assert clock.now_ms() < NOW
        await end(task)

    _, said = play_logged(story)
    assert 1 == told(said).count(("broker time unknown",))
    assert 1 == told(said).count(("broker clock stepped",))


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"bootTimestamp": "1000", "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}, (93_785_000, 93_785_999)),
        ({"bootTimestamp": "0", "runtime": "[ 1,000 days, 0 hours, 0 minutes, 1 seconds ]"}, (DAYS, DAYS + 999)),
        ({"currentTimestamp": "77", "bootTimestamp": "x"}, (77, 77)),
    ],
)  # fmt: skip
def test_what_a_broker_says_of_its_time(figures: Mapping[str, str], expected: tuple[int, int]) -> None:
    assert Reading(*expected) == clock_in(figures, "broker-a")


@pytest.mark.parametrize("figures", [{}, {"bootTimestamp": "5"}, {"bootTimestamp": "5", "runtime": "since yesterday"}])
def test_what_says_nothing_is_no_time(figures: Mapping[str, str]) -> None:
    with pytest.raises(ProtocolError, match="no time"):
        clock_in(figures, "broker-a")
