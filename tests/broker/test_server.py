"""The whole broker over real sockets: starting, several brokers, binding, stopping, and coming back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.broker.answers import refuse
from framework.broker.intercept import Interceptor
from framework.broker.rules import User
from framework.broker.server import Broker
from framework.broker.settings import BrokerSettings
from framework.errors import BrokerUnreachable, ConfigurationError, StoreError
from framework.net.channel import Channel
from framework.net.credentials import Credentials
from framework.net.real_world import real_world
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection, Limits
from framework.wire.fields import command_for
from framework.wire.requests.offset import MaxOffsetRequest
from framework.wire.requests.pull import SUBSCRIPTION, SUSPEND
from framework.wire.stored import decode_records
from tests.broker.broker_lab import one_way, pull_command, send_command
from tests.patience import PATIENCE_S
from tests.ports import free_port

WORLD = real_world()
PATIENCE_MS = int(PATIENCE_S * 1000)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Broker]:
    broker = Broker(WORLD, **options)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@asynccontextmanager
async def connected(address: str, sign: Callable[[RemotingCommand], None] | None = None) -> AsyncIterator[Channel]:
    host, _, port = address.rpartition(":")
    channel = Channel(address, sign=sign)
    await WORLD.network.connect(channel, host, int(port))
    try:
        yield channel
    finally:
        channel.close("done")
        await channel.closed


async def _send(channel: Channel, body: bytes, topic: str = "t") -> RemotingCommand:
    return await channel.request(send_command(topic, body), timeout_ms=PATIENCE_MS)


async def _bodies(channel: Channel, offset: int, topic: str = "t") -> list[bytes]:
    answer = await channel.request(pull_command(offset, topic), timeout_ms=PATIENCE_MS)
    return [record.body for record in decode_records(answer.body)]


def test_a_message_goes_in_and_comes_out() -> None:
    async def scenario() -> None:
        async with running() as broker, connected(broker.address) as channel:
            assert (await _send(channel, b"hello")).code == 0
            assert await _bodies(channel, 0) == [b"hello"]

    asyncio.run(scenario())


@pytest.mark.parametrize("binary", [False, True])
def test_a_frame_beyond_the_limit_is_answered_with_it_and_the_connection_goes_on(binary: bool) -> None:
    """It used to be closed without a word, which clients take for a broker that is down."""

    async def scenario() -> None:
        limits = Limits(frame_bytes_max=16 * 1024 * 1024)
        async with running(settings=BrokerSettings(body_bytes_max=1024)) as broker:
            host, _, port = broker.address.rpartition(":")
            channel = Channel(broker.address, limits=limits)
            channel._wire = Connection(limits, binary=binary)
            await WORLD.network.connect(channel, host, int(port))
            with_body = await _send(channel, bytes(1_000_000))
            in_header = await channel.request(
                RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "t" * 100_000, "queueId": "0"}),
                timeout_ms=PATIENCE_MS,
            )
            assert (13, "frame of 10") == (with_body.code, (with_body.remark or "")[:11])
            assert "exceeds the limit of 263168" in (with_body.remark or "")
            assert (13, "header of 1") == (in_header.code, (in_header.remark or "")[:11])
            assert "exceeds the limit of 65536" in (in_header.remark or "")
            assert (await _send(channel, b"small")).code == 0
            with pytest.raises(BrokerUnreachable):
                await _send(channel, bytes(4 * 263_168))

    asyncio.run(scenario())


def test_a_waiting_pull_hears_of_a_message_at_once() -> None:
    async def scenario() -> None:
        async with running() as broker, connected(broker.address) as puller, connected(broker.address) as producer:
            await _send(producer, b"first")
            pull = pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=PATIENCE_MS)
            waiting = puller.request_now(pull, timeout_ms=2 * PATIENCE_MS)
            await _send(producer, b"second")
            answer = await waiting
            assert [record.body for record in decode_records(answer.body)] == [b"second"]

    asyncio.run(scenario())


def test_messages_and_offsets_survive_a_restart_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(data=tmp_path / "data") as broker, connected(broker.address) as channel:
            answers = await asyncio.gather(*(_send(channel, b"%d" % i) for i in range(50)))
            assert sorted(int(answer.fields["queueOffset"]) for answer in answers) == list(range(50))
            broker.nodes[0].rules.group("g")
            commit = RemotingCommand(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": "7"},
            )
            channel.send(one_way(commit))
            await _send(channel, b"last")
        async with running(data=tmp_path / "data") as broker, connected(broker.address) as channel:
            assert len(await _bodies(channel, 0)) == 32
            query = RemotingCommand(
                RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": "t", "queueId": "0"}
            )
            assert (await channel.request(query, timeout_ms=PATIENCE_MS)).fields["offset"] == "7"

    asyncio.run(scenario())


def test_a_second_broker_on_the_folder_refuses_to_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(data=tmp_path / "data"):
            with pytest.raises(StoreError, match="in use by another broker"):
                await Broker(WORLD, data=tmp_path / "data").start()

    asyncio.run(scenario())


def test_a_port_that_is_taken_leaves_the_folder_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running() as first:
            port = int(first.address.rpartition(":")[2])
            with pytest.raises(OSError, match="in use"):
                await Broker(WORLD, data=tmp_path / "data", port=port).start()
        async with running(data=tmp_path / "data"):
            pass

    asyncio.run(scenario())


def test_several_logical_brokers_share_a_store_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(data=tmp_path / "data", brokers=2) as broker:
            assert list(broker.brokers) == ["broker-a", "broker-b"]
            first, second = broker.brokers.values()
            async with connected(first) as a, connected(second) as b:
                await _send(a, b"on a")
                await _send(b, b"on b")
                assert (await _bodies(a, 0), await _bodies(b, 0)) == ([b"on a"], [b"on b"])

    asyncio.run(scenario())


def test_following_ports_are_taken_where_one_is_named() -> None:
    async def scenario() -> None:
        free = free_port()
        async with running(port=free, brokers=1) as broker:
            assert broker.address == f"127.0.0.1:{free}"
        assert Broker(WORLD, port=20_000, brokers=3)._ports == [20_000, 20_001, 20_002]

    asyncio.run(scenario())


def _two_lower(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_port_of_java_s_vip_channel_is_served_too(brokers: int) -> None:
    async def scenario() -> None:
        async with running(brokers=brokers) as broker:
            for name, address in broker.brokers.items():
                async with connected(_two_lower(address)) as channel, connected(address) as usual:
                    assert (await _send(channel, name.encode())).code == 0
                    assert await _bodies(usual, 0) == [name.encode()]

    asyncio.run(scenario())


def test_a_vip_port_that_is_taken_is_named_and_keeps_nothing_from_starting() -> None:
    async def scenario() -> tuple[int, bytes]:
        port = _three_free_ports()
        async with running(port=port), running(port=port + 2) as second, connected(second.address) as channel:
            await _send(channel, b"second")
            return port, (await _bodies(channel, 0))[0]

    with capture_logs() as lines:
        port, body = asyncio.run(scenario())
    (line,) = [line for line in lines if line["event"] == "VIP port taken"]
    assert (b"second", port, "warning") == (body, line["port"], line["log_level"])


def test_of_three_on_following_ports_a_request_goes_to_the_one_that_it_names() -> None:
    """The third one's VIP port is the first one's own."""

    async def scenario() -> None:
        async with running(port=_three_free_ports(), brokers=3) as broker:
            first, _, third = broker.brokers.values()
            assert _two_lower(third) == first
            async with connected(first) as channel, connected(third) as usual:
                sent = await channel.request(
                    send_command("t", b"for c", broker_name="broker-c"), timeout_ms=PATIENCE_MS
                )
                own = await channel.request(send_command("t", b"for a", broker_name="broker-a"), timeout_ms=PATIENCE_MS)
                ends = [
                    await channel.request(
                        command_for(MaxOffsetRequest(topic="t", queue_id=0, broker_name=name)), timeout_ms=PATIENCE_MS
                    )
                    for name in ("broker-c", "broker-b", "elsewhere", None)
                ]
                assert (0, 0) == (sent.code, own.code)
                assert [b"for c"] == await _bodies(usual, 0)
                assert [b"for a"] == await _bodies(channel, 0)
                assert ["1", "0", "1", "1"] == [end.fields["offset"] for end in ends]

    asyncio.run(scenario())


def _three_free_ports() -> int:
    """The first of three, with the two below it."""
    return free_port(5) + 2


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "broker.example"])
def test_other_machines_are_not_let_in_without_credentials(host: str) -> None:
    with pytest.raises(ConfigurationError, match="needs credentials"):
        Broker(WORLD, host=host)


@pytest.mark.parametrize("count", [0, 17])
def test_the_number_of_logical_brokers_is_bounded(count: int) -> None:
    with pytest.raises(ConfigurationError, match="use 1 to 16"):
        Broker(WORLD, brokers=count)


def test_with_credentials_only_those_who_sign_are_served() -> None:
    ours = Credentials("key", "secret")

    async def scenario() -> None:
        async with running(auth=[User("key", "secret", is_super=True)]) as broker:
            for credentials, code in ((ours, 0), (Credentials("key", "x"), 16), (Credentials("y", "secret"), 16)):
                async with connected(broker.address, sign=credentials.sign) as channel:
                    assert (await _send(channel, b"hello")).code == code
            async with connected(broker.address) as channel:
                assert (await _send(channel, b"hello")).code == 16

    asyncio.run(scenario())


def test_stopping_answers_held_pulls_and_keeps_what_was_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = Broker(WORLD, data=tmp_path / "data")
        await broker.start()
        async with connected(broker.address) as channel:
            await _send(channel, b"first")
            pull = pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=PATIENCE_MS)
            waiting = channel.request_now(pull, timeout_ms=2 * PATIENCE_MS)
            await _send(channel, b"other queue", "u")
            await broker.stop()
            assert (await waiting).code == 19
            await channel.closed
        await broker.stop()
        async with running(data=tmp_path / "data") as again, connected(again.address) as channel:
            assert await _bodies(channel, 0) == [b"first"]

    asyncio.run(scenario())


def test_a_request_can_be_intercepted() -> None:
    async def scenario() -> None:
        async with running() as broker, connected(broker.address) as channel:
            remove = broker.intercept(
                Interceptor(code=RequestCode.SEND_MESSAGE_V2, answer=refuse(2, "busy"), times=None)
            )
            assert (await _send(channel, b"x")).code == 2
            remove()
            assert (await _send(channel, b"x")).code == 0

    asyncio.run(scenario())


def test_a_body_one_byte_too_large_is_refused_by_name() -> None:
    async def scenario() -> None:
        async with (
            running(settings=BrokerSettings(body_bytes_max=100_000)) as broker,
            connected(broker.address) as channel,
        ):
            assert (await _send(channel, bytes(100_001))).code == 13
            assert (await _send(channel, bytes(100_000))).code == 0

    asyncio.run(scenario())


def test_a_killed_broker_comes_back_with_what_was_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = Broker(WORLD, data=tmp_path / "data")
        await broker.start()
        async with connected(broker.address) as channel:
            for i in range(5):
                await _send(channel, b"%d" % i)
            broker.kill()
            await broker.close_ports()
        async with running(data=tmp_path / "data") as again, connected(again.address) as channel:
            assert await _bodies(channel, 0) == [b"%d" % i for i in range(5)]

    asyncio.run(scenario())


def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    program = (
        "import asyncio; from pathlib import Path; from framework.broker.server import Broker;"
        "from framework.net.real_world import real_world\n"
        "async def main():\n"
        f"    broker = Broker(real_world(), data=Path({str(tmp_path / 'data')!r}))\n"
        "    await broker.start(); print('at', broker.address, flush=True); await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )

    async def scenario() -> None:
        acknowledged: list[bytes] = []
        assert process.stdout is not None
        # It may log before that: of a disk that is nearly full, say.
        address = next(line.split()[1] for line in process.stdout if line.startswith("at "))
        async with connected(address) as channel:

            async def send_all(first: int) -> None:
                for i in range(first, 10_000, 8):
                    body = b"%d" % i
                    try:
                        await _send(channel, body)
                    except BrokerUnreachable:
                        return
                    acknowledged.append(body)
                    if len(acknowledged) == 200:
                        process.kill()

            await asyncio.gather(*(send_all(first) for first in range(8)))
        process.wait()  # its connections end a moment before it lets go of the folder
        async with running(data=tmp_path / "data") as broker, connected(broker.address) as channel:
            found: list[bytes] = []
            while (answer := await channel.request(pull_command(len(found)), timeout_ms=PATIENCE_MS)).code == 0:
                records = decode_records(answer.body)
                assert [record.queue_offset for record in records] == [len(found) + i for i in range(len(records))]
                found += [record.body for record in records]
            assert len(acknowledged) >= 200
            assert set(acknowledged) <= set(found)
            assert len(set(found)) == len(found)

    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            asyncio.run(scenario())
        finally:
            process.kill()
