"""The worked examples of the articles that this was born from, to the letter."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from framework import Message, consumer
from framework.core.assignment import allocate
from framework.core.batch import spread
from framework.core.line import Line, Portion
from framework.core.retry import SendBack, decide
from framework.core.window import FlowLimits, reason_to_wait
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.circle import Circle
from framework.model import delay_levels
from framework.model.contracts import AllocationStrategy
from framework.model.outcome import BatchFailed, RetryLater
from framework.model.queue import MessageQueue
from framework.settings.consumers import ConsumerSettings
from framework.settings.schema import AppSettings
from tests.core.making import admit, finish, window_at
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Copied, Finished, Started
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import DELAYS_MS, GroupLoad, Workload


def divided(strategy: AllocationStrategy, queues: Sequence[MessageQueue], members: int) -> list[list[int]]:
    """Each member's share, by the queues' places in order."""
    names = [f"c{number + 1}" for number in range(members)]
    in_order = sorted(queues)
    return [[in_order.index(queue) for queue in allocate(strategy, name, names, list(queues))] for name in names]


def test_lit_1_five_brokers_of_two_queues_are_four_three_and_three() -> None:
    queues = [MessageQueue("orders", f"b{broker}", number) for broker in range(1, 6) for number in (1, 2)]
    shares = [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert shares == divided(Averaging(), queues, 3)
    assert [[0], [1], []] == divided(Averaging(), queues[:2], 3)
    random.Random(1).shuffle(queues)
    assert shares == divided(Averaging(), queues, 3)


def test_lit_2_eight_queues_and_three_members() -> None:
    queues = [MessageQueue("orders", "b", number) for number in range(8)]
    assert [[0, 1, 2], [3, 4, 5], [6, 7]] == divided(Averaging(), queues, 3)
    assert [[0, 3, 6], [1, 4, 7], [2, 5]] == divided(Circle(), queues, 3)


def test_lit_3_one_stuck_message_holds_the_offset_and_then_its_queue() -> None:
    window = window_at(2101)
    chunk = admit(window, range(2101, 2201))
    finish(chunk, *range(1, 100))
    assert 2101 == window.settle()
    finish(chunk, 0)
    assert 2201 == window.settle(), "the next one to handle"

    for last, reason in ((4100, None), (4101, None), (4102, "span")):
        window = window_at(2101)
        admit(window, [2101, last])
        assert reason == reason_to_wait(window, FlowLimits(), has_budget=True), last


@pytest.mark.parametrize("answer", [3, BatchFailed(at=4)])
def test_lit_4_of_ten_whose_fifth_fails_the_fifth_to_the_tenth_come_again(answer: object) -> None:
    """By an index that is well and by a failure with an index alike."""
    assert [True] * 4 + [False] * 6 == [each is None for each in spread(answer, 10)]
    assert [True] * 5 + [False] * 5 == [each is None for each in spread(4, 10)], "ackIndex=4"


def test_lit_5_sixteen_retries_take_17140_seconds_and_then_a_dead_letter() -> None:
    seconds = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    assert seconds == [each // 1000 for each in delay_levels.DELAYS_MS]
    assert (60, 17_140) == (seconds[5 - 1], sum(seconds[delay_levels.FIRST_RETRY_LEVEL - 1 :]))
    decided = [decide(RetryLater(), attempt, 16) for attempt in range(1, 18)]
    levels = [each.level for each in decided if isinstance(each, SendBack)]
    assert [delay_levels.BY_ATTEMPT] * 16 + [delay_levels.TO_DEAD_LETTERS] == levels


def test_lit_5_each_retry_comes_no_sooner_than_its_level_says() -> None:
    """In virtual time, on a ladder of shorter levels: three retries, and the fourth copy is a dead letter."""

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("orders", 5)
        await story.within("5m").until(all_handled)
        ended = {(each.message_id, each.attempt): each.at for each in story.history.of(Finished)}
        waits = [(each.attempt, each.at - ended[each.message_id, each.attempt - 1])
                 for each in story.history.of(Started) if each.attempt > 1]  # fmt: skip
        assert {2: 5, 3: 5, 4: 5} == Counter(attempt for attempt, _ in waits)
        for attempt, wait in waits:
            level_s = DELAYS_MS[delay_levels.FIRST_RETRY_LEVEL + attempt - 3] / 1000
            assert level_s <= wait < level_s + 0.5, attempt
        assert [4] * 5 == list(Counter(each.message_id for each in story.history.of(Copied)).values())

    tell(scenario, all_poison(max_retries=3))


def test_lit_5_without_retries_the_first_failure_is_the_last() -> None:
    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("orders", 5)
        await story.within("1m").until(all_handled)
        assert [1] * 5 == [each.attempt for each in story.history.of(Finished)]
        assert [1] * 5 == list(Counter(each.message_id for each in story.history.of(Copied)).values())

    tell(scenario, all_poison(max_retries=0))


def all_poison(max_retries: int) -> Cluster:
    load = GroupLoad(fail_rate=0.0, poison_rate=1.0)
    return Cluster(apps=0, workload=Workload(groups=(load,), max_retries=max_retries))


def test_lit_6_the_lowest_that_has_not_ended_is_what_is_committed() -> None:
    window = window_at(10)
    chunk = admit(window, [10, 20, 21, 23])
    for index, committable in ((1, 10), (0, 21), (2, 23), (3, 24)):
        finish(chunk, index)
        assert committable == window.settle()

    for indexes, committable in (([0, 1], 3), ([1, 2, 3], 1), ([0, 1, 2, 3], 5)):
        window = window_at(1)
        finish(admit(window, [1, 2, 3, 4]), *indexes)
        assert committable == window.settle()


def test_lit_7_what_arrives_while_31_is_at_work_comes_behind_40() -> None:
    line, window = Line(), window_at(20)

    def arrive(offsets: Sequence[int]) -> None:
        chunk = admit(window, offsets)
        line.offer(Portion(chunk, chunk.messages))

    arrive(range(20, 41))
    seen: list[int] = []
    while (portion := line.first) is not None:
        seen.append(line.message.queue_offset)
        if seen[-1] == 31:
            arrive(range(41, 51))
        line.advance(portion, 1)
    assert list(range(20, 51)) == seen


@pytest.mark.parametrize(("changed_at_s", "limit_s"), [(None, 15 * 60), (30, 60)])
def test_lit_8_a_handler_is_given_up_at_its_limit_and_a_changed_limit_holds_for_it(
    changed_at_s: int | None, limit_s: int
) -> None:
    """Java cleans once in the time-out's length, between 15 and 30 minutes, and a changed one changes nothing."""
    began: list[float] = []
    given_up: list[float] = []

    @consumer(topic="orders", group="billing")
    async def hang(message: Message) -> None:
        loop = asyncio.get_running_loop()
        began.append(loop.time())
        if message.attempt == 1:
            try:
                await asyncio.sleep(86_400)
            except asyncio.CancelledError:
                given_up.append(loop.time())
                raise

    async def scenario(story: Story) -> None:
        (machine,) = await story.start_apps(1)
        await story.send("orders", 1)
        await story.within("1m").until(lambda _: bool(began))
        if changed_at_s is not None:
            await story.sleep(f"{changed_at_s}s")
            assert machine.app is not None
            machine.app.adopt(machine.app.settings.model_copy(update={"consumers": consumers("1m")}))
        await story.within("16m").until(lambda _: len(began) == 2)
        assert limit_s <= given_up[0] - began[0] <= limit_s + 0.1

    def consumers(timeout: str) -> Mapping[str, ConsumerSettings]:
        return {"billing": ConsumerSettings.model_validate({"start": "first", "timeout": timeout})}

    settings = AppSettings(consumers=consumers("15m"))
    tell(scenario, Cluster(apps=0, consumers=lambda _: [hang], settings=settings))
