"""The producer with order keys: where they go, whose turn it is, and what becomes of them while a broker is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.errors import ConfigurationError, NotConnected, Refused, RequestTimedOut
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import properties
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import A, B, route_of
from tests.client.test_producer import Sending, refuse, stored
from tests.net.memory import virtually

ON_A, ON_B = "L", "K"
"""Keys whose queues are orders@a:0 and orders@b:1."""


def test_one_key_one_queue_by_each_way_to_send() -> None:
    async def story() -> tuple[list[str], dict[str, str], MessageQueue]:
        sending = Sending()
        sending.cluster.both(
            lambda request: RemotingCommand(
                0, {"msgId": "0A", "queueId": request.fields["e"], "queueOffset": "7", "TRACE_ON": "true"}
            )
        )
        results = [
            await sending.send("orders", b"x", order_key=ON_B),
            await sending.send(Message("orders", b"x", order_key=ON_B)),
            await sending.send("orders", b"x", properties={"__SHARDINGKEY": ON_B}),
            *await sending.producer.send_batch([Message("orders", b"x", order_key=ON_B) for _ in range(2)]),
            await sending.send("orders", b"x", order_key=ON_A),
        ]
        queue = await sending.producer.queue_of("orders", ON_B)
        await sending.close()
        return [str(each.queue) for each in results], properties.decode(sending.sends(B)[0].fields["i"]), queue

    places, written, queue = virtually(story)

    assert ["orders@b:1"] * 5 + ["orders@a:0"] == places
    assert ON_B == written["__SHARDINGKEY"], "so that orderly='key' knows it"
    assert MessageQueue("orders", "b", 1) == queue


def test_sends_of_one_key_made_at_once_leave_in_the_order_of_their_calls() -> None:
    async def story() -> tuple[list[bytes], list[bytes]]:
        sending, called = Sending(), list[bytes]()

        async def send(body: bytes) -> None:
            called.append(body)  # the loop of tests starts tasks in any order
            await sending.send("orders", body, order_key=ON_A)

        await asyncio.gather(*(send(b"%d" % n) for n in range(20)))
        await sending.close()
        return called, [request.body for request in sending.sends(A)]

    called, sent = virtually(story)

    assert 20 == len(called)
    assert called == sent


def test_a_key_whose_broker_is_away_waits_for_it() -> None:
    """And others do not: their broker is there."""

    async def story() -> tuple[str, str, float]:
        sending = Sending()
        await sending.send("orders", b"x", order_key=ON_A)
        script = sending.cluster.network.scripts.pop(B)
        loop = asyncio.get_running_loop()
        loop.call_later(2, sending.cluster.network.scripts.__setitem__, B, script)
        other = await sending.send("orders", b"x", order_key=ON_A)
        assert loop.time() < 1
        result = await sending.send("orders", b"x", order_key=ON_B)
        await sending.close()
        return str(other.queue), str(result.queue), loop.time()

    other, place, elapsed = virtually(story)

    assert ("orders@a:0", "orders@b:1") == (other, place)
    assert 2 <= elapsed < 6


def test_keys_that_wait_for_a_broker_hold_no_place() -> None:
    """However many: the other keys go on."""

    async def story() -> str:
        sending = Sending(max_in_flight=2)
        await sending.send("orders", b"x", order_key=ON_A)
        del sending.cluster.network.scripts[B]
        waiting = [asyncio.ensure_future(sending.send("orders", b"x", order_key=ON_B)) for _ in range(4)]
        await asyncio.sleep(0.1)
        result = await sending.send("orders", b"x", order_key=ON_A, timeout="2s")
        for each in waiting:
            each.cancel()
        await sending.close()
        return str(result.queue)

    assert "orders@a:0" == virtually(story)


def test_a_key_waits_also_for_a_broker_that_left_the_route() -> None:
    async def story() -> str:
        sending = Sending()
        await sending.send("orders", b"x", order_key=ON_A)
        whole = sending.cluster.routes["orders"]
        sending.cluster.routes["orders"] = route_of({"a": {0: A}})
        await sending.cluster.client.routes.refresh("orders")
        left = r"order key 'K' has queue orders@b:1, and its broker is not in the route .*start this producer anew"
        with pytest.raises(RequestTimedOut, match=rf"not stored within 3000 ms; the last attempt: .*{left}"):
            await sending.send("orders", b"x", order_key=ON_B, timeout="3s")
        assert not sending.sends(B)
        sending.cluster.routes["orders"] = whole
        await sending.cluster.client.routes.refresh("orders")
        result = await sending.send("orders", b"x", order_key=ON_B)
        await sending.close()
        return str(result.queue)

    assert "orders@b:1" == virtually(story)


def test_a_producer_can_be_told_to_fail_at_once_instead() -> None:
    async def story() -> float:
        sending = Sending(when_away="fail")
        await sending.send("orders", b"x", order_key=ON_A)
        del sending.cluster.network.scripts[B]
        for send in (sending.send, sending.producer.send_one_way):
            with pytest.raises(NotConnected, match=f"^send to orders: {B}: .*refused"):
                await send("orders", b"x", order_key=ON_B)
            with pytest.raises(NotConnected, match=f"^send to orders: {B}: .*refused"):
                await send("orders", b"x", queue=MessageQueue("orders", "b", 1))
        await sending.close()
        return asyncio.get_running_loop().time()

    assert virtually(story) < 0.1


def test_a_key_waits_also_while_no_broker_of_its_topic_takes_writes() -> None:
    """It was refused at once, where one of two brokers would have been waited for."""

    async def story() -> tuple[str, str, float]:
        sending = Sending()
        await sending.send("orders", b"x", order_key=ON_A)
        whole, routes, loop = (
            sending.cluster.routes["orders"],
            sending.cluster.client.routes,
            asyncio.get_running_loop(),
        )
        sending.cluster.routes["orders"] = route_of({"a": {0: A}, "b": {0: B}}, perm=4)
        await routes.refresh("orders")
        queue = await sending.producer.queue_of("orders", ON_B)
        loop.call_later(2, sending.cluster.routes.__setitem__, "orders", whole)
        loop.call_later(2, lambda: refreshed.append(loop.create_task(routes.refresh("orders"))))
        refreshed: list[Any] = []
        result = await sending.send("orders", b"x", order_key=ON_B)
        await sending.close()
        return str(queue), str(result.queue), loop.time()

    queue, placed, ended = virtually(story)

    assert "orders@b:1" == queue == placed
    assert 2 <= ended < 5


def test_a_refusal_is_tried_again_at_the_same_queue_only() -> None:
    async def story() -> tuple[int, int]:
        sending = Sending()
        sending.cluster.scripts[B] = refuse(2)
        with pytest.raises(Refused, match="code 2"):
            await sending.send("orders", b"x", order_key=ON_B)
        sending.cluster.scripts[B] = refuse(13)
        with pytest.raises(Refused, match="code 13"):
            await sending.send("orders", b"x", order_key=ON_B)
        await sending.close()
        return len(sending.sends(A)), len(sending.sends(B))

    assert (0, 3 + 1) == virtually(story)


def test_what_cannot_be_kept_in_order_is_refused_before_anything_is_sent() -> None:
    async def story() -> int:
        sending = Sending()
        sending.cluster.routes["TBW102"] = route_of({"a": {0: A}, "b": {0: B}}, read=8, write=8, perm=7)
        several = [Message("orders", b"x", order_key=key) for key in ("K", "L")]
        with pytest.raises(ConfigurationError, match="messages with order key 'K' and order key 'L': send one batch"):
            await sending.producer.send_batch(several)
        with pytest.raises(ConfigurationError, match="messages with order key 'K' and no order key"):
            await sending.producer.send_batch([several[0], Message("orders", b"x")])
        with pytest.raises(ConfigurationError, match=r"order key 'K': the topic does not exist, .*; create it first"):
            await sending.send("new", b"x", order_key="K")
        with pytest.raises(ConfigurationError, match="order_key 8841: must be a text"):
            await sending.send("orders", b"x", order_key=8841)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="order_key '': must be a text that is not empty"):
            await sending.send("orders", b"x", order_key="")
        with pytest.raises(ConfigurationError, match="order_key='K', but property __SHARDINGKEY is 'L'"):
            await sending.send("orders", b"x", order_key="K", properties={"__SHARDINGKEY": "L"})
        with pytest.raises(ConfigurationError, match=r"a Message carries its own .*order key"):
            await sending.send(several[0], order_key="K")
        nothing = len(sending.cluster.network.requests(A) + sending.cluster.network.requests(B))
        sending.cluster.both(lambda _: RemotingCommand(0, {"msgId": "0A,0B", "queueId": "1", "queueOffset": "20"}))
        await sending.producer.send_batch(several, queue=MessageQueue("orders", "a", 1))
        await sending.close()
        return nothing + len(sending.cluster.asked(A, RequestCode.SEND_BATCH_MESSAGE)) - 1

    assert 0 == virtually(story)


def test_a_topic_that_one_broker_creates_keeps_keys() -> None:
    async def story() -> list[str]:
        sending = Sending()
        sending.cluster.routes["TBW102"] = route_of({"a": {0: A}}, read=8, write=8, perm=7)
        first = await sending.send("new", b"x", order_key="K")
        sending.cluster.routes["new"] = route_of({"a": {0: A}}, read=4, write=4)
        await sending.cluster.client.routes.refresh("new")
        second = await sending.send("new", b"x", order_key="K")
        await sending.close()
        return [str(first.queue), str(second.queue)]

    assert ["new@a:3"] * 2 == virtually(story)


def test_names_within_a_namespace_keep_their_key() -> None:
    async def story() -> Any:
        sending = Sending(namespace="shop")
        sending.cluster.routes["shop%orders"] = route_of({"a": {0: A}, "b": {0: B}})
        sending.cluster.both(stored)
        result = await sending.send("orders", b"x", order_key=ON_B)
        queue = await sending.producer.queue_of("orders", ON_B)
        await sending.close()
        return result.queue, queue

    assert (MessageQueue("orders", "b", 1),) * 2 == virtually(story)
