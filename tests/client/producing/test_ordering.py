"""One order key, one queue: Java's choice, what a broker's absence changes, and whose turn it is."""

from __future__ import annotations

import asyncio

import pytest

from framework.client.producing.ordering import KeyedQueues, KeyTurns, queue_of_key
from framework.model.queue import MessageQueue
from framework.net.route import Route, checked
from framework.wire.bodies.route import TopicRoute
from tests.client.script import A, B, route_of
from tests.net.memory import virtually


def queues(**brokers: int) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("orders", name, n) for name, count in brokers.items() for n in range(count))


def route(order: tuple[MessageQueue, ...] = (), **brokers: int) -> Route:
    return Route(queues(**brokers), queues(**brokers), {}, order)


@pytest.mark.parametrize(
    ("key", "count", "number"),
    [
        ("K", 4, 3),
        ("L", 4, 0),
        ("order-8841", 8, 4),
        ("polygenelubricants", 8, 0),  # its hash is the smallest int, whose absolute value is itself in Java
        ("polygenelubricants", 7, 2),
        ("größe 消息 😀", 6, 5),  # its hash is negative
        ("one", 1, 0),
    ],
)
def test_a_key_has_the_queue_that_java_s_selector_gives_it(key: str, count: int, number: int) -> None:
    """Numbers from SelectMessageQueueByHash in a JVM."""
    assert MessageQueue("orders", "a", number) == queue_of_key(queues(a=count), key)


def test_a_key_keeps_its_queue_while_another_broker_is_away() -> None:
    keyed, keys = KeyedQueues(), [f"key-{n}" for n in range(50)]
    before = {key: keyed.queue_of("orders", route(a=2, b=2), key) for key in keys}
    during = {key: keyed.queue_of("orders", route(a=2), key) for key in keys}
    after = {key: keyed.queue_of("orders", route(a=2, b=2), key) for key in keys}

    assert {"a", "b"} == {queue.broker for queue, _ in before.values()}
    assert all(is_there for _, is_there in before.values())
    assert {key: queue for key, (queue, _) in before.items()} == {key: queue for key, (queue, _) in during.items()}
    assert all(is_there == (queue.broker == "a") for queue, is_there in during.values())
    assert before == after


def test_more_queues_on_the_same_brokers_move_keys_as_in_java() -> None:
    keyed = KeyedQueues()
    keyed.queue_of("orders", route(a=2), "K")

    assert (MessageQueue("orders", "a", 3), True) == keyed.queue_of("orders", route(a=4), "K")
    assert (MessageQueue("orders", "a", 1), True) == keyed.queue_of("orders", route(a=2), "K"), "and fewer"


def test_a_new_broker_moves_keys_once_all_that_were_there_are_back() -> None:
    keyed = KeyedQueues()
    keyed.queue_of("orders", route(a=2, b=2), "K")

    assert (MessageQueue("orders", "b", 1), False) == keyed.queue_of("orders", route(a=2, c=2), "K")
    all_three = route(a=2, b=2, c=2)
    assert (queue_of_key(all_three.writable, "K"), True) == keyed.queue_of("orders", all_three, "K")


def test_the_name_server_s_order_configuration_names_the_queues_whoever_is_away() -> None:
    """So it holds for a producer that was started meanwhile, too."""
    by_configuration = route(queues(b=2, a=2), a=2)

    queue, is_there = KeyedQueues().queue_of("orders", by_configuration, "K")
    assert (MessageQueue("orders", "a", 1), True) == (queue, is_there)
    queue, is_there = KeyedQueues().queue_of("orders", by_configuration, "L")
    assert (MessageQueue("orders", "b", 0), False) == (queue, is_there)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b:2;a:1", queues(b=2, a=1)),
        ("b:2;a:1;", queues(b=2, a=1)),
        ("", ()),
        (None, ()),
        ("b:2;a", ()),
        ("b:-1", ()),
        (":2", ()),
        ("b:99999", ()),
        ("b:16384;a:1", ()),
    ],
)
def test_an_order_configuration_is_read_as_java_reads_it_or_left_out(
    text: str | None, expected: tuple[MessageQueue, ...]
) -> None:
    answer = TopicRoute.decode(route_of({"a": {0: A}, "b": {0: B}}))
    told = TopicRoute(queues=answer.queues, brokers=answer.brokers, order_conf=text)

    assert expected == checked("orders", told).order


def test_sends_of_one_key_take_turns_and_others_do_not_wait() -> None:
    async def story() -> list[str]:
        turns, seen = KeyTurns(), list[str]()

        async def send(key: str, name: str) -> None:
            async with turns.turn("orders", key):
                seen.append(f"{name} begins")
                await asyncio.sleep(1)
                seen.append(f"{name} ends")

        await asyncio.gather(send("K", "one"), send("K", "two"), send("L", "other"))
        assert not turns._lanes, "nothing is kept of a key that nobody sends"
        assert asyncio.get_running_loop().time() < 2.5, "the other one did not wait"
        return [each for each in seen if not each.startswith("other")]

    seen = virtually(story)
    first, second = seen[0].split()[0], seen[2].split()[0]

    assert {"one", "two"} == {first, second}, "the loop of tests starts tasks in any order"
    assert [f"{first} begins", f"{first} ends", f"{second} begins", f"{second} ends"] == seen
