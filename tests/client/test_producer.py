"""Producer: which queue, which broker next, what counts as stored, and how long it tries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.client.producer import Producer
from framework.errors import BrokerUnreachable, ConfigurationError, NotConnected, Refused, RequestTimedOut
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.listener import Listener
from framework.net.real_world import real_world
from framework.wire import properties
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.compression import decompress
from tests.client.script import NS, A, B, ScriptedCluster, route_of
from tests.net.memory import Peer, virtually


def stored(request: RemotingCommand, code: int = 0) -> RemotingCommand:
    return RemotingCommand(
        code, {"msgId": "0A00", "queueId": request.fields.get("e", "0"), "queueOffset": "7", "TRACE_ON": "true"}
    )


def refuse(code: int) -> Any:
    return lambda _: RemotingCommand(code, remark=f"code {code} it is")


class Sending:
    """A scripted cluster with a producer on it."""

    def __init__(self, **options: Any) -> None:
        self.cluster = ScriptedCluster()
        self.cluster.both(stored)
        self.producer = Producer(cluster=self.cluster.client, **options)
        self.send = self.producer.send

    def sends(self, address: str) -> list[RemotingCommand]:
        return self.cluster.asked(address, RequestCode.SEND_MESSAGE_V2)

    async def close(self) -> None:
        await self.producer.stop()
        await self.cluster.client.close()


def test_a_send_answers_where_the_message_is() -> None:
    async def story() -> tuple[Any, RemotingCommand]:
        sending = Sending()
        result = await sending.send("orders", "paid", tags="TagA", queue=MessageQueue("orders", "a", 1))
        await sending.close()
        return result, sending.sends(A)[0]

    result, request = virtually(story)

    assert MessageQueue("orders", "a", 1) == result.queue
    assert (7, "0A00", 0) == (result.queue_offset, result.offset_message_id, result.code)
    assert result.message_id == properties.decode(request.fields["i"])["UNIQ_KEY"]
    assert b"paid" == request.body


def test_queues_take_turns_over_all_brokers() -> None:
    async def story() -> list[int]:
        sending = Sending()
        places = [str((await sending.send("orders", b"x")).queue) for _ in range(8)]
        await sending.close()
        return sorted(places.count(place) for place in dict.fromkeys(places))

    assert [2, 2, 2, 2] == virtually(story)


def test_message_ids_differ() -> None:
    async def story() -> int:
        sending = Sending()
        ids = {(await sending.send("orders", b"x")).message_id: None for _ in range(50)}
        await sending.close()
        return len(ids)

    assert 50 == virtually(story)


@pytest.mark.parametrize("code", [17, 14, 1, 2, 16, 204, 205])
def test_a_refusal_worth_a_retry_goes_to_another_broker(code: int) -> None:
    async def story() -> list[str]:
        sending = Sending()
        sending.cluster.scripts[A] = refuse(code)
        brokers = [(await sending.send("orders", b"x")).queue.broker for _ in range(6)]
        await sending.close()
        return brokers

    assert ["b"] * 6 == virtually(story)


@pytest.mark.parametrize("code", [13, 29, 26])
def test_a_refusal_of_the_message_itself_is_final(code: int) -> None:
    async def story() -> int:
        sending = Sending()
        sending.cluster.both(refuse(code))
        with pytest.raises(Refused, match=rf"SEND_MESSAGE_V2 \(310\) refused by .: code {code}"):
            await sending.send("orders", b"x")
        await sending.close()
        return len(sending.sends(A) + sending.sends(B))

    assert 1 == virtually(story)


@pytest.mark.parametrize("code", [0, 10, 11, 12])
def test_codes_that_mean_stored_are_a_success(code: int) -> None:
    async def story() -> tuple[int, int]:
        sending = Sending()
        sending.cluster.both(lambda request: stored(request, code))
        result = await sending.send("orders", b"x")
        await sending.close()
        return result.code, len(sending.sends(A) + sending.sends(B))

    assert (code, 1) == virtually(story)


def test_an_unreachable_broker_is_passed_over() -> None:
    async def story() -> list[str]:
        sending = Sending()
        del sending.cluster.network.scripts[A]
        brokers = [(await sending.send("orders", b"x")).queue.broker for _ in range(6)]
        await sending.close()
        return brokers

    assert ["b"] * 6 == virtually(story)


def test_the_only_broker_is_tried_again_after_a_pause() -> None:
    """It may be restarting: three attempts within a millisecond would all fail."""

    async def story() -> float:
        sending = Sending()
        sending.cluster.routes["orders"] = route_of({"a": {0: A}})
        script = sending.cluster.network.scripts.pop(A)
        loop = asyncio.get_running_loop()
        loop.call_later(0.15, sending.cluster.network.scripts.__setitem__, A, script)
        await sending.send("orders", b"x")
        await sending.close()
        return loop.time()

    assert 0.2 <= virtually(story) < 1


@pytest.mark.parametrize(("retries", "said"), [(3, r"4 attempts failed \(., .\)"), (0, r"1 attempt failed \(.\)")])
def test_after_the_last_attempt_the_error_names_brokers_and_cause(retries: int, said: str) -> None:
    async def story() -> None:
        sending = Sending(retries=retries)
        del sending.cluster.network.scripts[A]
        del sending.cluster.network.scripts[B]
        with pytest.raises(BrokerUnreachable, match=rf"send to orders: {said}; the last: .*refused"):
            await sending.send("orders", b"x")
        await sending.close()

    virtually(story)


def test_what_keeps_a_send_from_leaving_names_its_topic() -> None:
    async def story() -> None:
        sending = Sending()
        del sending.cluster.network.scripts[NS]
        for send in (sending.send, sending.producer.send_one_way):
            with pytest.raises(NotConnected, match=r"^send to orders: no name server answers: .*cluster.name_servers"):
                await send("orders", b"x")
        await sending.close()

    virtually(story)


def test_all_attempts_together_are_bounded() -> None:
    async def story() -> float:
        sending = Sending()
        sending.cluster.both(lambda _: None)
        with pytest.raises(RequestTimedOut, match="send to orders: not stored within 4000 ms"):
            await sending.send("orders", b"x", timeout="4s")
        elapsed = asyncio.get_running_loop().time()
        await sending.close()
        return elapsed

    assert 4 <= virtually(story) < 4.1


@pytest.mark.parametrize("code", [2, 13])
@pytest.mark.parametrize("order_key", [None, "8841"])
def test_a_refusal_after_an_attempt_without_an_answer_does_not_say_that_nothing_is_stored(
    code: int, order_key: str | None
) -> None:
    async def story() -> None:
        sending = Sending()
        answers = iter([None, *[refuse(code)(None)] * 5])
        sending.cluster.both(lambda _: next(answers))
        with pytest.raises(BrokerUnreachable, match=f"an attempt without an answer may have stored it; .*code {code}"):
            await sending.send("orders", b"x", order_key=order_key)
        await sending.close()

    virtually(story)


@pytest.mark.parametrize("retries", [0, 2])
def test_nothing_leaves_once_the_time_is_over(retries: int) -> None:
    """The first attempt took all of it: a second one would store the message again, and nobody would hear of it."""

    async def story() -> int:
        sending = Sending(retries=retries)
        for _ in range(2):
            await sending.send("orders", b"connected to both")
        sending.cluster.both(lambda _: None)
        with pytest.raises(RequestTimedOut, match="send to orders: not stored within 500 ms"):
            await sending.send("orders", b"x", timeout="0.5s")
        await asyncio.sleep(1)
        await sending.close()
        return len(sending.sends(A) + sending.sends(B))

    assert 2 + 1 == virtually(story)


def test_one_that_hangs_leaves_time_for_another() -> None:
    async def story() -> str:
        sending = Sending()
        sending.cluster.scripts[A] = lambda _: None
        broker = [(await sending.send("orders", b"x")).queue.broker for _ in range(2)]
        await sending.close()
        return "".join(broker)

    assert "bb" == virtually(story)


def test_a_chosen_queue_is_the_only_one_tried() -> None:
    async def story() -> int:
        sending = Sending()
        sending.cluster.scripts[A] = refuse(2)
        with pytest.raises(Refused):
            await sending.send("orders", b"x", queue=MessageQueue("orders", "a", 1))
        with pytest.raises(ConfigurationError, match="queue other@a:1 belongs to another topic"):
            await sending.send("orders", b"x", queue=MessageQueue("other", "a", 1))
        await sending.close()
        return len(sending.sends(A) + sending.sends(B))

    assert 1 == virtually(story)


def test_a_topic_that_does_not_exist_yet_goes_where_it_will_be_created() -> None:
    async def story() -> tuple[list[int], dict[str, str]]:
        sending = Sending()
        sending.cluster.routes["TBW102"] = route_of({"a": {0: A}}, read=8, write=8, perm=7)
        numbers = [(await sending.send("new", b"x")).queue.number for _ in range(8)]
        await sending.close()
        return sorted(dict.fromkeys(numbers)), sending.sends(A)[0].fields

    numbers, fields = virtually(story)

    assert [0, 1, 2, 3] == numbers
    assert ("new", "TBW102", "4") == (fields["b"], fields["c"], fields["d"])


def test_a_topic_that_comes_into_being_between_two_questions_takes_the_message() -> None:
    """Made by another send: the answer that there is none and the one that there is are not one answer."""

    async def story() -> str:
        sending = Sending()
        sending.cluster.routes["TBW102"] = route_of({"a": {0: A}}, read=8, write=8, perm=7)
        ask = sending.cluster.network.scripts[NS]

        def and_make(peer: Peer, request: RemotingCommand) -> RemotingCommand | None:
            answer = ask(peer, request)
            sending.cluster.routes["new"] = route_of({"a": {0: A}}, read=4, write=4)
            return answer

        sending.cluster.network.scripts[NS] = and_make
        result = await sending.send("new", b"x")
        await sending.close()
        return result.queue.topic

    assert "new" == virtually(story)


def test_a_topic_that_nobody_creates_is_an_error_with_its_remedy() -> None:
    async def story() -> None:
        sending = Sending()
        with pytest.raises(Refused, match=r"send to new refused by the name server: code 17, .*create it first"):
            await sending.send("new", b"x")
        sending.cluster.routes["closed"] = route_of({"a": {0: A}}, perm=4)
        with pytest.raises(Refused, match="send to closed refused by the name server: code 16, no broker in its route"):
            await sending.send("closed", b"x")
        await sending.close()

    virtually(story)


@pytest.mark.parametrize("name", ["zlib", "lz4", "zstd"])
def test_large_bodies_travel_compressed(name: str) -> None:
    async def story() -> RemotingCommand:
        sending = Sending(compression=name)
        await sending.send("orders", b"0123456789" * 1_000, queue=MessageQueue("orders", "a", 0))
        await sending.close()
        return sending.sends(A)[0]

    request = virtually(story)

    assert len(request.body) < 1_000
    assert b"0123456789" * 1_000 == decompress(request.body, int(request.fields["f"]))


def test_a_batch_is_stored_in_one_queue_at_consecutive_offsets() -> None:
    async def story() -> tuple[list[tuple[str, int, str]], int]:
        sending = Sending()
        sending.cluster.both(
            lambda request: RemotingCommand(0, {"msgId": "0A,0B", "queueId": "1", "queueOffset": "20"})
        )
        messages = [Message("orders", b"one", message_id="M1"), Message("orders", b"two", message_id="M2")]
        results = await sending.producer.send_batch(messages)
        await sending.close()
        batches = [sending.cluster.asked(address, RequestCode.SEND_BATCH_MESSAGE) for address in (A, B)]
        return [(one.message_id, one.queue_offset, one.offset_message_id) for one in results], sum(map(len, batches))

    assert ([("M1", 20, "0A"), ("M2", 21, "0B")], 1) == virtually(story)


def test_a_message_brings_everything_itself() -> None:
    async def story() -> str:
        sending = Sending()
        with pytest.raises(ConfigurationError, match="a Message carries its own body"):
            await sending.send(Message("orders", b"x"), tags="TagA")
        result = await sending.send(Message("orders", b"x", message_id="MINE"), delay_level=3)
        await sending.close()
        return result.message_id

    assert "MINE" == virtually(story)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "give either name_servers or cluster"),
        ({"name_servers": NS, "compression": "rar"}, "compression 'rar': use zlib, lz4, zstd"),
        ({"name_servers": NS, "when_away": "move"}, "when_away 'move': use wait, fail"),
        ({"name_servers": NS, "group": "a b"}, "producer group 'a b'"),
        ({"name_servers": NS, "timeout": "soon"}, "'soon' is not a duration"),
        ({"name_servers": "nonsense"}, "name server 'nonsense': write host:port"),
        ({"name_servers": "a:1;b:1"}, "several are a list"),
        ({"name_servers": 9876}, "name_servers=9876: give a list of texts"),
        ({"name_servers": NS, "allow": [10]}, r"allow=\[10\]: give a list of texts"),
        ({"name_servers": NS, "allow": "10/8"}, "allow '10/8'"),
        ({"name_servers": NS, "address_map": NS}, "address_map='10.0.0.9:9876': give a dict"),
        ({"cluster": "app"}, "cluster='app': give app.cluster"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Producer(**options)


def test_a_producer_alone_refreshes_routes_and_closes_what_it_opened() -> None:
    async def story() -> tuple[int, list[bool]]:
        cluster = ScriptedCluster()
        cluster.both(stored)
        async with Producer(name_servers=[NS], world=cluster.world) as producer:
            await producer.send("orders", b"x")
            await asyncio.sleep(65)
        await asyncio.sleep(1)  # until the other ends have noticed
        return len(cluster.network.requests(NS)), [peer.is_lost for _, peer in cluster.network.peers]

    asked, lost = virtually(story)

    assert 2 <= asked <= 4
    assert all(lost)


def test_a_producer_that_was_not_started_says_so() -> None:
    async def story() -> None:
        with pytest.raises(ConfigurationError, match="start it first"):
            await Producer(name_servers=NS).send("orders", b"x")

    virtually(story)


def test_a_producer_sends_over_a_real_socket() -> None:
    """Name server and broker on one port, as the box has them."""

    async def story() -> tuple[int, str]:
        port = 0

        def serve(channel: Any, command: RemotingCommand) -> None:
            if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                channel.answer(command, RemotingCommand(0, body=route_of({"box": {0: f"127.0.0.1:{port}"}})))
            else:
                channel.answer(command, stored(command))

        listener = Listener(real_world(), "127.0.0.1", 0, on_request=serve)
        port = await listener.start()
        async with Producer(name_servers=f"127.0.0.1:{port}") as producer:
            result = await producer.send("orders", b"x")
            count = len(listener.channels)
        await listener.close()
        return count, result.queue.broker

    assert (1, "box") == asyncio.run(story())
