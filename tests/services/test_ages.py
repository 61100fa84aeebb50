"""Ages: a message is as old as the younger-making of two clocks says, and not old at all where they disagree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import pytest

from framework.core.results import result_of
from framework.core.skipping import Skipping, SkipRules
from framework.declare import consumer
from framework.errors import Refused
from framework.model.message import Message
from framework.model.outcome import DeadLetter, RetryLater
from framework.model.pulled import Found
from framework.model.queue import MessageQueue
from framework.model.retrying import Retry
from framework.model.subscription import Start
from framework.services.call.deliver import DeliveryHooks, Rules, judging_for
from framework.services.call.publishing import Means
from framework.services.clocks import Ages, AlignedClock, ClockLoop
from framework.services.queue.intake import Skips
from framework.services.queue.position import find_start
from tests.services.parts import Line, play_logged
from tests.services.test_clocks import HOUR, NOW, Brokers, Wall

T = TypeVar("T")
YEARS = 5 * 365 * 24 * HOUR
SILENT = Refused(16, "no permission", request="runtime", peer="honest")
HONEST = MessageQueue("orders", "honest", 0)


class Scene:
    """A process whose wall clock is off by so much, and brokers that tell theirs, or do not."""

    def __init__(self, wall_ms: int = 0, **told: int | Refused) -> None:
        self.wall, self.brokers = Wall(), Brokers(dict(told))
        self.wall.off_ms = wall_ms
        self.clock = AlignedClock(self.wall)
        self.clocks = ClockLoop(self.clock, cast("Any", self.brokers))
        self.ages = Ages(self.clock, self.clocks)

    async def skipped(self, ages_ms: list[int], queue: MessageQueue = HONEST, dated_ms: int = 0) -> int:
        """How many messages of a pull are skipped by a rule of an hour. `dated_ms`: their broker's clock then."""
        now_ms = NOW + self.clock.monotonic_ms() + dated_ms
        messages = [
            Message("orders", queue=queue, queue_offset=at, stored_ms=now_ms - age) for at, age in enumerate(ages_ms)
        ]
        skipping = Skipping(SkipRules(older_than_ms=HOUR))
        taken: list[Message] = []

        async def further(found: Found, begin: int) -> bool:
            taken.extend(found.messages)
            return True

        skips = Skips(skipping, "billing", queue, self.ages)
        await skips.take(Found(messages, 100, len(messages), 0, len(messages)), 0, further)
        assert len(messages) - len(taken) == skipping.total
        return skipping.total


def played(scene: Scene, story: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, list[Line]]:
    async def main() -> T:
        await scene.clocks.ask()
        return await story()

    return play_logged(main)


FRESH, STALE = [0] * 40, [2 * HOUR] * 3 + [0]


@pytest.mark.parametrize("lie", [YEARS, -YEARS])
def test_one_brokers_wrong_clock_skips_nothing_of_a_broker_that_does_not_tell_its_time(lie: int) -> None:
    scene = Scene(liar=lie, honest=SILENT)
    (fresh, _) = played(scene, lambda: scene.skipped(FRESH))
    assert 0 == fresh


@pytest.mark.parametrize(
    ("expected", "wall", "told"),
    [
        (3, 0, 0),
        (3, 0, 30_000),  # by less than a minute: whichever skips less
        (3, -30_000, 0),
        (3, 0, SILENT),
        (0, 0, YEARS),  # one of them is wrong, and nobody can say which
        (0, 0, -YEARS),
        (0, YEARS, 0),
        (0, -YEARS, 0),
        (0, -YEARS, SILENT),
    ],
)
def test_what_is_old_is_skipped_where_the_clocks_agree(expected: int, wall: int, told: int | Refused) -> None:
    scene = Scene(wall, honest=told)
    skipped, _ = played(scene, lambda: scene.skipped(STALE))
    assert expected == skipped
    assert 0 == played(scene, lambda: scene.skipped(FRESH))[0]


def test_a_clock_of_ours_that_is_years_ahead_skips_nothing_new_of_a_silent_broker_beside_one_that_tells() -> None:
    scene = Scene(YEARS, teller=0, honest=SILENT)
    assert 0 == played(scene, lambda: scene.skipped(FRESH))[0]


def test_a_broker_whose_clock_was_set_back_since_it_told_is_asked_before_anything_is_skipped() -> None:
    scene = Scene(honest=0)

    async def story() -> int:
        scene.brokers.told["honest"] = -YEARS
        scene.wall.off_ms = 0
        await asyncio.sleep(60)
        return await scene.skipped(FRESH, dated_ms=-YEARS)

    assert 0 == played(scene, story)[0]


def test_a_broker_beyond_those_that_are_asked_by_themselves_is_asked_once_and_kept_in_mind() -> None:
    scene = Scene(a=0, b=0, c=0, d=0, e=0, honest=-YEARS)

    async def story() -> tuple[int, int]:
        assert "honest" not in scene.brokers.asked
        skipped = sum([await scene.skipped(FRESH, dated_ms=-YEARS) for _ in range(5)])
        first = scene.brokers.asked.count("honest")
        await scene.clocks.ask()
        return skipped, scene.brokers.asked.count("honest") - first

    assert (0, 1) == played(scene, story)[0]
    assert 2 == scene.brokers.asked.count("honest")


def test_a_broker_that_refuses_is_not_asked_with_each_pull() -> None:
    scene = Scene(honest=SILENT)

    async def story() -> None:
        for _ in range(20):
            assert 3 == await scene.skipped(STALE)
            await asyncio.sleep(1)

    played(scene, story)
    assert 1 == scene.brokers.asked.count("honest")


def test_a_young_message_between_two_that_look_old_is_not_skipped() -> None:
    """Its broker's clock was set back behind it."""
    scene = Scene(honest=0)
    assert 1 == played(scene, lambda: scene.skipped([2 * HOUR, 0, 2 * HOUR, 2 * HOUR]))[0]


def test_the_warning_names_broker_and_clocks_and_comes_once_and_again_each_ten_minutes() -> None:
    scene = Scene(honest=YEARS)

    async def story() -> None:
        for _ in range(11):
            scene.ages.now_ms("honest")
            await asyncio.sleep(60)
        scene.brokers.told["honest"] = 0
        await scene.clocks.ask()
        scene.ages.now_ms("honest")

    _, said = played(scene, story)
    lines = [each for each in said if each["event"] == "message ages unknown"]
    assert 2 == len(lines)
    assert ("honest", "warning") == (lines[0]["broker"], lines[0]["log_level"])
    assert ("2028", "2023") == (lines[0]["broker_time"][:4], lines[0]["local_time"][:4])
    assert abs(lines[0]["apart_ms"] - YEARS) < 1_000
    assert 1 == [each["event"] for each in said].count("message ages known")


class Offsets:
    """A queue that holds 10 to 90."""

    def __init__(self) -> None:
        self.searched: list[int] = []

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        return None

    async def min_offset(self, queue: MessageQueue) -> int:
        return 10

    async def max_offset(self, queue: MessageQueue) -> int:
        return 90

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        self.searched.append(timestamp_ms)
        return 40


@pytest.mark.parametrize(("expected", "told"), [(40, 0), (40, SILENT), (10, YEARS), (10, -YEARS)])
def test_a_group_that_begins_by_age_begins_at_the_first_message_where_clocks_disagree(
    expected: int, told: int | Refused
) -> None:
    scene, offsets = Scene(liar=YEARS, honest=told), Offsets()

    async def story() -> int:
        return (
            await find_start(cast("Any", offsets), "billing", HONEST, Start("age", HOUR), scene.ages.asked_ms)
        ).offset

    assert expected == played(scene, story)[0]
    assert all(NOW - HOUR <= each <= NOW - HOUR + 1_000 for each in offsets.searched)
    assert (expected == 40) is bool(offsets.searched)


@pytest.mark.parametrize(("expected", "told"), [(RetryLater, YEARS), (RetryLater, SILENT), (RetryLater, 0)])
def test_a_new_message_is_retried_whatever_clocks_say(expected: type, told: int | Refused) -> None:
    outcome = tried(Scene(liar=YEARS, honest=told), born_ms=NOW)
    assert expected is type(outcome)


@pytest.mark.parametrize(("expected", "told"), [(RetryLater, YEARS), (DeadLetter, SILENT), (DeadLetter, 0)])
def test_an_old_one_is_given_up_where_clocks_agree(expected: type, told: int | Refused) -> None:
    outcome = tried(Scene(liar=0, honest=told), born_ms=NOW - 2 * HOUR)
    assert expected is type(outcome)


def tried(scene: Scene, born_ms: int) -> object:
    """What becomes of a message whose handler fails, within an hour."""

    @consumer("orders", "billing", retry=Retry(within="1h"))
    async def bill(message: Message) -> None:
        raise ValueError("no")

    async def story() -> object:
        means = Means(ages=scene.ages.now_ms)
        judged = judging_for(bill.spec, DeliveryHooks(), scene.clock, Rules(), means)
        message = Message("orders", b"x", queue=HONEST, born_ms=born_ms)
        return result_of(judged(message, ValueError("no"))).outcome

    return played(scene, story)[0]
