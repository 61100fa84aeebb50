"""Orderly groups, with the real runtime and the broker in the box."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from framework import Commit, DeadLetter, Delivery, Message, RetryLater, Suspend, consumer
from framework.broker.server import Broker
from framework.client.producer import Producer
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.model.message import SHARDING_KEY
from framework.model.queue import MessageQueue
from framework.runtime.app import App
from framework.settings.schema import AppSettings
from tests.patience import until
from tests.runtime.test_app import box, run, running, send

TOPIC = "stock"


async def send_to(broker: Broker, number: int, *bodies: str, topic: str = TOPIC) -> None:
    async with Producer(name_servers=[broker.address]) as producer:
        for body in bodies:
            await producer.send(topic, body.encode(), queue=MessageQueue(topic, broker.nodes[0].name, number))


def by_queue(seen: list[tuple[int, int]]) -> dict[int, list[int]]:
    queues: dict[int, list[int]] = {}
    for number, offset in seen:
        queues.setdefault(number, []).append(offset)
    return queues


@pytest.mark.parametrize("is_async", [True, False])
def test_each_queue_is_handled_in_order_and_one_at_a_time(is_async: bool) -> None:
    async def scenario() -> None:
        seen: list[tuple[int, int]] = []
        at_work: list[int] = []

        async def move(message: Message) -> None:
            assert message.queue.number not in at_work
            at_work.append(message.queue.number)
            await asyncio.sleep(0.001 * (message.queue_offset % 3))
            at_work.remove(message.queue.number)
            seen.append((message.queue.number, message.queue_offset))

        def move_in_a_thread(message: Message) -> None:
            seen.append((message.queue.number, message.queue_offset))

        handler = consumer(topic=TOPIC, group="inventory", orderly=True)(move if is_async else move_in_a_thread)
        async with box() as broker:
            await send(broker, TOPIC, *map(str, range(100)))
            async with running(broker, handler) as app:
                await until(lambda: len(seen) == 100)
                (group,) = app.snapshot().groups
                assert group.is_orderly
                assert all(queue.is_locked for queue in group.queues)
            assert 100 == app.counts.handled
        assert {number: list(range(25)) for number in range(4)} == by_queue(seen)

    run(scenario)


@pytest.mark.parametrize("is_async", [True, False])
def test_of_ten_in_a_batch_whose_fifth_fails_the_fifth_to_the_tenth_come_again(is_async: bool) -> None:
    async def scenario() -> None:
        seen: dict[int, list[list[tuple[int, int]]]] = {number: [] for number in range(4)}

        def move(messages: list[Message]) -> int | None:
            batch = [(message.queue_offset, message.attempt) for message in messages]
            seen[messages[0].queue.number].append(batch)
            return 3 if batch[0][0] == 0 else None

        async def move_async(messages: list[Message]) -> int | None:
            return move(messages)

        handler: Any = move_async if is_async else move
        async with box() as broker:
            await send(broker, TOPIC, *map(str, range(40)))
            async with running(broker, consumer(TOPIC, "inventory", orderly=True, batch=10, linger="1m")(handler)):
                await until(lambda: all(len(batches) == 2 for batches in seen.values()))
        first, second = [(offset, 1) for offset in range(10)], [(offset, 2) for offset in range(4, 10)]
        assert {number: [first, second] for number in range(4)} == seen

    run(scenario)


def test_a_message_that_fails_holds_its_queue_and_no_other() -> None:
    async def scenario() -> None:
        seen: list[tuple[int, int, int]] = []

        @consumer(topic=TOPIC, group="inventory", orderly=True)
        async def move(delivery: Delivery) -> Suspend | RetryLater | None:
            message = delivery.message
            seen.append((message.queue.number, message.queue_offset, delivery.attempt))
            if message.body != b"bad":
                return None
            match delivery.attempt:
                case 1:
                    return Suspend("10ms")
                case 2:
                    return RetryLater("20ms")
                case _:
                    return None

        async with box() as broker:
            await send(broker, TOPIC, *"abcd")
            await send_to(broker, 1, "bad", "behind")
            await send_to(broker, 2, "elsewhere")
            async with running(broker, move) as app:
                await until(lambda: app.counts.handled == 7)
            assert (7, 2, 0) == (app.counts.handled, app.counts.retried, app.counts.dead_lettered)
        held = [(offset, attempt) for number, offset, attempt in seen if number == 1]
        assert [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)] == held
        assert [(0, 1), (1, 1)] == [(offset, attempt) for number, offset, attempt in seen if number == 2]

    run(scenario)


def test_a_failing_key_holds_its_lane_and_no_other() -> None:
    async def scenario() -> None:
        seen: dict[str, list[tuple[int, int]]] = {}
        said: list[str] = []

        @consumer(topic=TOPIC, group="inventory", orderly="key")
        async def move(message: Message) -> Suspend | None:
            seen.setdefault(message.properties.get(SHARDING_KEY, ""), []).append(
                (message.queue_offset, message.attempt)
            )
            return Suspend("300ms") if message.body == b"bad" and not said else None

        async with box() as broker, Producer(name_servers=[broker.address]) as producer:
            await send(broker, TOPIC, *"abcd")
            queue = MessageQueue(TOPIC, broker.nodes[0].name, 0)
            for number in range(1, 13):
                body, key = "bad" if number == 4 else "good", f"shelf-{number % 3}"
                await producer.send(TOPIC, body, properties={SHARDING_KEY: key}, queue=queue)
            async with running(broker, move, max_retries=1000) as app:
                await until(lambda: app.counts.handled == 13)  # all but the bad one and the two behind it
                (blocked,) = await until(lambda: [each for each in app.snapshot().groups[0].queues if each.reason])
                said.append(str(blocked.reason))
                assert queue == blocked.place
                assert re.search(r"1 of 1 keys blocked, 'shelf-1' the longest: blocked after \d+ attempts", said[0])
                await until(lambda: app.counts.handled == 16)
        attempts = [(4, number) for number in range(1, len(seen["shelf-1"]) - 2)]
        assert len(attempts) >= 2
        assert [(1, 1), *attempts, (7, 1), (10, 1)] == seen["shelf-1"]
        assert [(2, 1), (5, 1), (8, 1), (11, 1)] == seen["shelf-2"]
        assert [(3, 1), (6, 1), (9, 1), (12, 1)] == seen["shelf-0"]
        assert [(0, 1)] * 4 == seen[""], "what has no key"

    run(scenario)


def test_the_offset_moves_by_hand() -> None:
    """Once a commit; the next owner is given what came after it again, in order."""

    async def scenario() -> None:
        seen: list[int] = []

        @consumer(topic=TOPIC, group="inventory", orderly=True, commit="manual")
        def move(message: Message) -> Commit | None:
            if message.queue.number:
                return Commit()
            seen.append(message.queue_offset)
            return Commit() if message.queue_offset == 5 else None

        async with box() as broker:
            await send(broker, TOPIC, *"abcd")
            await send_to(broker, 0, *map(str, range(8)))
            async with running(broker, move):
                await until(lambda: len(seen) == 9)
            async with running(broker, move):
                await until(lambda: len(seen) == 12)
        assert [*range(9), 6, 7, 8] == seen

    run(scenario)


def test_at_the_maximum_exactly_that_message_is_a_dead_letter_once() -> None:
    async def scenario() -> None:
        attempts: list[int] = []
        handled: list[bytes] = []
        buried: list[Message] = []

        @consumer(topic=TOPIC, group="inventory", orderly=True)
        def move(delivery: Delivery) -> object:
            if delivery.message.body == b"bad":
                attempts.append(delivery.attempt)
                return Suspend("10ms")
            if delivery.message.body == b"nonsense":
                return DeadLetter("not a step")
            handled.append(delivery.message.body)
            return None

        @consumer(topic="%DLQ%inventory", group="undertaker")
        async def bury(message: Message) -> None:
            buried.append(message)

        async with box() as broker:
            await send(broker, TOPIC, *"abcd")
            await send_to(broker, 0, "bad", "nonsense", "behind")
            async with running(broker, move, bury, max_retries=2) as app:
                await until(lambda: len(handled) == 5 and len(buried) == 2)
            assert (2, 2) == (app.counts.retried, app.counts.dead_lettered)
            async with running(broker, move, bury, max_retries=2) as app:
                await until(lambda: app.idle_ms() > 50)
            assert 0 == app.counts.handled, "everything was confirmed"
        assert [1, 2, 3] == attempts
        assert [b"bad", b"nonsense"] == [message.body for message in buried]
        assert {TOPIC} == {message.properties["RETRY_TOPIC"] for message in buried}

    run(scenario)


def test_a_second_member_gets_its_share_as_soon_as_it_is_unlocked() -> None:
    async def scenario() -> None:
        seen: list[tuple[int, int]] = []

        @consumer(topic=TOPIC, group="inventory", orderly=True)
        async def move(message: Message) -> None:
            seen.append((message.queue.number, message.queue_offset))
            await asyncio.sleep(0.002)

        def locked(app: App) -> set[str]:
            queues = (queue for group in app.snapshot().groups for queue in group.queues)
            return {queue.queue for queue in queues if queue.is_locked and not queue.queue.startswith("%")}

        async with box() as broker:
            await send(broker, TOPIC, *map(str, range(200)))
            async with running(broker, move) as first:
                await until(lambda: len(locked(first)) == 4)
                async with running(broker, move) as second:
                    await until(lambda: len(locked(first)) == len(locked(second)) == 2)
                    assert not locked(first) & locked(second)
                await until(lambda: len(locked(first)) == 4)
                await until(lambda: len(seen) >= 200)
        assert {number: list(range(50)) for number in range(4)} == by_queue(seen), "no repeats, no gaps, in order"

    run(scenario)


def test_a_group_is_orderly_or_concurrent() -> None:
    @consumer(topic="a", group="inventory", orderly=True)
    async def in_order(message: Message) -> None: ...

    @consumer(topic="b", group="inventory")
    async def at_once(message: Message) -> None: ...

    async def scenario() -> None:
        app = App(AppSettings(), [in_order, at_once], plugins=PluginHost())
        with pytest.raises(ConfigurationError, match=r"orderly for 'in_order' \(.*\) and concurrent for 'at_once'"):
            await app.run()

    asyncio.run(scenario())


def test_a_concurrent_group_cannot_be_stuck() -> None:
    @consumer(topic="a", group="billing")
    async def bill(message: Message) -> None: ...

    async def scenario(settings: dict[str, Any]) -> None:
        app = App(AppSettings.model_validate(settings), [bill], plugins=PluginHost())
        with pytest.raises(ConfigurationError, match=r"consumers\.billing\.stuck_after"):
            await app.run()

    asyncio.run(scenario({"consumers": {"billing": {"stuck_after": "1m"}}}))


def test_a_stop_ends_when_the_broker_is_gone() -> None:
    """Neither the last offset nor the unlock can be confirmed; both run out by themselves."""

    async def scenario() -> None:
        seen: list[int] = []

        @consumer(topic=TOPIC, group="inventory", orderly=True)
        async def move(message: Message) -> None:
            seen.append(message.queue_offset)

        async with box() as broker:
            await send(broker, TOPIC, *"abcd")
            async with running(broker, move):
                await until(lambda: len(seen) == 4)
                await broker.stop()

    run(scenario)
