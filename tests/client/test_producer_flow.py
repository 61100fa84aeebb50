"""The producer with many sends at once: places, brokers that are passed over, and messages that leave as one batch."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from framework.client.outgoing import SendResult
from framework.client.producer import Producer
from framework.client.producing.accumulating import BYTES_MAX
from framework.errors import BrokerUnreachable, ConfigurationError, Refused, RequestTimedOut
from framework.model.message import Message
from framework.wire import batch
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import NS, A, B, ScriptedCluster
from tests.client.test_producer import Sending, refuse, stored
from tests.net.memory import Peer, virtually
from tests.wire.batches import decode as decode_batch


def batches(sending: Sending) -> list[RemotingCommand]:
    return [request for at in (A, B) for request in sending.cluster.asked(at, RequestCode.SEND_BATCH_MESSAGE)]


def take_all(request: RemotingCommand) -> RemotingCommand:
    if request.code != RequestCode.SEND_BATCH_MESSAGE:
        return stored(request)
    count = len(batch.positions(request.body))
    return RemotingCommand(0, {"msgId": ",".join(["0A"] * count), "queueId": request.fields["e"], "queueOffset": "20"})


# Places


def test_no_more_sends_are_under_way_than_were_asked_for() -> None:
    async def story() -> tuple[int, int]:
        sending = Sending(max_in_flight=3)
        sending.cluster.both(lambda _: None)
        waiting = [asyncio.ensure_future(sending.send("orders", b"x", timeout="2s")) for _ in range(8)]
        await asyncio.sleep(1)
        under_way = len(sending.sends(A) + sending.sends(B))
        for each in waiting:
            with pytest.raises(RequestTimedOut):
                await each
        sending.cluster.both(stored)
        results = await asyncio.gather(*(sending.send("orders", b"x") for _ in range(8)))
        await sending.close()
        return under_way, len(results)

    assert (3, 8) == virtually(story)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_in_flight": 0}, "max_in_flight 0: use 1 to 65536"),
        ({"max_in_flight": "all"}, "max_in_flight 'all'"),
        ({"retries": -1}, "retries -1: use 0 or more"),
        ({"compress_above": -5}, "compress_above -5: use 0 or more"),
        ({"body_bytes_max": 0}, "body_bytes_max 0: use 1 or more"),
        ({"compression": "rar"}, "compression 'rar': use zlib, lz4, zstd"),
        ({"linger": "soon"}, "linger: 'soon' is not a duration"),
        ({"linger": "1m"}, "linger: '1m' is above 10 s"),
        ({"max_in_flight": True}, "max_in_flight True: use 1 to 65536"),
        ({"retries": True}, "retries True: use 0 or more"),
        ({"codec": "avro"}, r"codec='avro': give an object with encoder\(topic\)"),
        ({"group": 5}, "group=5: give a text"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], complaint: str) -> None:
    async def story() -> None:
        with pytest.raises(ConfigurationError, match=complaint):
            Sending(**options)

    virtually(story)


def test_a_codec_whose_package_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the first large message, perhaps days later."""
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(
        ConfigurationError, match="compression 'zstd': zstandard cannot be imported: pip install zstandard"
    ):
        Producer(name_servers=NS, compression="zstd")


def test_a_producer_of_a_loop_that_is_over_says_so() -> None:
    """As one that two calls of asyncio.run share."""
    producer = Producer(name_servers="127.0.0.1:1")
    asyncio.run(producer.start())

    with pytest.raises(
        ConfigurationError, match="the event loop that the producer was started in is closed; make a new"
    ):
        asyncio.run(producer.send("orders", b"x"))


@pytest.mark.parametrize("order_key", [None, "K"])
@pytest.mark.parametrize("is_known", [False, True])
def test_sends_under_way_are_told_soon_when_their_producer_stops(order_key: str | None, is_known: bool) -> None:
    """Those with a key went on to wait for their broker, each for its whole time."""

    async def story() -> tuple[list[object], float]:
        cluster, loop = ScriptedCluster(), asyncio.get_running_loop()
        cluster.both(stored)
        producer = Producer(name_servers=[NS], world=cluster.world, timeout="1h")
        await producer.start()
        if is_known:
            await producer.send("orders", b"x", order_key=order_key)
        cluster.both(lambda request: None if request.code == RequestCode.SEND_MESSAGE_V2 else stored(request))
        sends = [loop.create_task(producer.send("orders", b"x", order_key=order_key)) for _ in range(20)]
        await asyncio.sleep(0.1)
        began = loop.time()
        await producer.stop()
        told = await asyncio.gather(*sends, return_exceptions=True)
        return [*told], loop.time() - began

    told, seconds = virtually(story)

    assert all(isinstance(error, BrokerUnreachable) and "send to orders: " in str(error) for error in told), told
    assert seconds < 2


@pytest.mark.parametrize("method", ["send", "send_one_way", "request"])
def test_a_stopped_producer_says_so_and_sends_nothing(method: str) -> None:
    async def story() -> int:
        sending = Sending()
        await sending.producer.stop()
        await sending.producer.stop()
        with pytest.raises(ConfigurationError, match=f"Producer.{method}: the producer was stopped; make a new one"):
            await getattr(sending.producer, method)("orders", b"x")
        return len(sending.sends(A)) + len(sending.sends(B))

    assert 0 == virtually(story)


# Brokers that are passed over


def test_a_broker_that_failed_is_left_out_for_a_while_and_then_tried_again() -> None:
    async def story() -> tuple[int, set[str]]:
        sending = Sending()
        sending.cluster.scripts[A] = refuse(2)
        for _ in range(20):
            await sending.send("orders", b"x")
        failures = len(sending.sends(A))
        sending.cluster.scripts[A] = stored
        await asyncio.sleep(11)
        brokers = {(await sending.send("orders", b"x")).queue.broker for _ in range(8)}
        await sending.close()
        return failures, brokers

    assert (1, {"a", "b"}) == virtually(story)


def test_where_every_broker_is_left_out_none_is() -> None:
    async def story() -> str:
        sending = Sending()
        sending.cluster.both(refuse(2))
        with pytest.raises(Refused):
            await sending.send("orders", b"x")
        sending.cluster.both(stored)
        result = await sending.send("orders", b"x")
        await sending.close()
        return result.queue.broker

    assert virtually(story) in {"a", "b"}


# Accumulation


def played(story: Callable[[Sending], Any], **options: Any) -> Any:
    async def whole() -> Any:
        sending = Sending(linger="5ms", **options)
        sending.cluster.both(take_all)
        try:
            return await story(sending)
        finally:
            await sending.close()

    return virtually(whole)


def test_sends_at_once_leave_as_one_batch_with_an_answer_for_each() -> None:
    async def story(sending: Sending) -> tuple[list[SendResult], int]:
        messages = [Message("orders", b"%d" % n, message_id=f"M{n}") for n in range(10)]
        results = await asyncio.gather(*(sending.send(message) for message in messages))
        assert asyncio.get_running_loop().time() < 1
        return results, len(batches(sending))

    results, count = played(story)

    assert 1 == count
    assert [f"M{n}" for n in range(10)] == [result.message_id for result in results]
    assert list(range(20, 30)) == sorted(result.queue_offset for result in results)


def test_a_message_alone_goes_alone_and_compressed() -> None:
    async def story(sending: Sending) -> tuple[int, int]:
        await sending.send("orders", b"alone")
        await sending.send("orders", b"x" * 100_000)
        return len(batches(sending)), len(sending.sends(A) + sending.sends(B))

    assert (1, 1) == played(story)


def test_each_order_key_s_queue_has_its_batches_one_after_the_other_in_order() -> None:
    async def story(sending: Sending) -> dict[str, list[bytes]]:
        called: dict[str, list[bytes]] = {"K": [], "L": []}

        async def send(key: str, body: bytes) -> None:
            await asyncio.sleep(0.001 * (int(body) // 10))
            called[key].append(body)
            await sending.send("orders", body, order_key=key)

        await asyncio.gather(*(send(key, b"%d" % n) for n in range(60) for key in "KL"))
        for key, address in (("K", B), ("L", A)):
            sent = [
                part.body
                for request in sending.cluster.network.requests(address)
                if request.code == RequestCode.SEND_BATCH_MESSAGE
                for part in decode_batch(request.body)
            ]
            assert called[key] == sent, key
        return called

    assert {"K", "L"} == set(played(story))


def test_a_failed_batch_is_told_to_each_caller_and_the_next_one_goes() -> None:
    async def story(sending: Sending) -> tuple[list[type], int]:
        sending.cluster.both(refuse(13))
        errors = await asyncio.gather(*(sending.send("orders", b"x") for _ in range(3)), return_exceptions=True)
        sending.cluster.both(take_all)
        await sending.send("orders", b"x", order_key="K")
        return [type(error) for error in errors], 1

    assert ([Refused] * 3, 1) == played(story)


def test_what_is_wrong_with_one_message_hurts_no_other_of_its_batch() -> None:
    async def story(sending: Sending) -> list[object]:
        bodies = [b"x", b"", b"y"]
        return list(await asyncio.gather(*(sending.send("orders", body) for body in bodies), return_exceptions=True))

    one, wrong, other = played(story)
    assert isinstance(wrong, ConfigurationError)
    assert isinstance(one, SendResult)
    assert isinstance(other, SendResult)


def test_a_full_batch_waits_no_longer() -> None:
    async def story(sending: Sending) -> list[bytes]:
        await asyncio.gather(*(sending.send("orders", b"x" * 1_000) for _ in range(64)))
        return sorted((request.body for request in batches(sending)), key=len)

    *others, full, as_full = played(story)
    assert 64 == sum(len(batch.positions(body)) for body in (*others, full, as_full))
    for body in (full, as_full):
        last = batch.positions(body)[-1]
        assert last < BYTES_MAX <= len(body), "the message that fills it is its last"


def test_delays_and_chosen_queues_do_not_wait_for_others() -> None:
    async def story(sending: Sending) -> int:
        queue = await sending.producer.queue_of("orders", "K")
        await asyncio.gather(
            sending.send("orders", b"x", queue=queue),
            sending.send("orders", b"x", delay_level=3),
            sending.send("orders", b"x", properties={"DELAY": "2"}),
        )
        return len(batches(sending))

    assert 0 == played(story)


def test_who_gives_up_waiting_is_not_sent_and_who_waits_at_the_stop_is_told() -> None:
    async def story() -> tuple[int, list[bytes]]:
        sending = Sending(linger="2s")
        sending.cluster.both(take_all)
        with pytest.raises(RequestTimedOut):
            await sending.send("orders", b"given up", timeout="1s")
        waiting = asyncio.gather(*(sending.send("orders", b"waits") for _ in range(2)), return_exceptions=True)
        await asyncio.sleep(0.1)
        await sending.producer.stop()
        told = await waiting
        assert all("the producer was stopped; it was not sent" in str(error) for error in told)
        assert all(isinstance(error, BrokerUnreachable) for error in told)
        await sending.cluster.client.close()
        return len(batches(sending)), [request.body for request in sending.sends(A) + sending.sends(B)]

    assert (0, []) == virtually(story)


def test_a_call_that_comes_to_its_queue_after_the_stop_is_told_at_once() -> None:
    async def story() -> float:
        sending = Sending(linger="5ms")
        asked = asyncio.Event()

        def slow(peer: Peer, request: RemotingCommand) -> None:
            answer = sending.cluster.name_server(peer, request)
            asyncio.get_running_loop().call_later(1, peer.reply, request, answer)
            asked.set()

        sending.cluster.network.scripts[NS] = slow
        call = asyncio.ensure_future(sending.send("orders", b"x", order_key="8841"))
        await asked.wait()
        await sending.producer.stop()
        with pytest.raises(BrokerUnreachable, match="the producer was stopped; it was not sent"):
            await call
        elapsed = asyncio.get_running_loop().time()
        await sending.cluster.client.close()
        return elapsed

    assert virtually(story) < 2
