"""The producing half of the client, with a broker in memory: whatever is written is answered in the loop's next turn.

Everything before the write and behind the answer is real: the producer, its templates, the pool, the channel and its
frames. What this file calls is counted for nobody; the turn of the loop that brings the answers stands for the socket.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.cost.engine import BODY, QUEUES, TOPIC
from framework import Message, Producer
from framework.net.real_world import real_world
from framework.ports import Listening, PipeOwner

AT_ONCE = 64
BATCH = 64
NAME_SERVER, BROKER = "127.0.0.1:9876", "127.0.0.1:10911"
ROUTE_REQUEST = 105
LENGTH = struct.Struct(">I")
ROUTE = json.dumps(
    {
        "brokerDatas": [{"cluster": "c", "brokerName": "broker-a", "brokerAddrs": {"0": BROKER}}],
        "queueDatas": [
            {"brokerName": "broker-a", "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "topicSysFlag": 0}
        ],
    }
).encode()
STORED = {"msgId": "7F0000010000" * 2 + "00000000", "queueId": "3", "queueOffset": "17"}


class Answered:
    """The writing end of a connection to a broker that has an answer to everything."""

    def __init__(self, owner: PipeOwner) -> None:
        self._owner, self._is_closing = owner, False

    def write(self, data: bytes) -> None:
        answers, at = bytearray(), 0
        while at < len(data):
            size = LENGTH.unpack_from(data, at)[0]
            header = json.loads(data[at + 8 : at + 8 + (LENGTH.unpack_from(data, at + 4)[0] & 0xFF_FFFF)])
            at += 4 + size
            if not header["flag"] & 2:
                answers += _answer(header)
        if answers:
            asyncio.get_running_loop().call_soon(self._owner.data_received, bytes(answers))

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._owner.connection_lost, None)

    def is_closing(self) -> bool:
        return self._is_closing

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, _: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0


class InMemory:
    """The network: one broker, at whatever address."""

    async def connect(
        self, owner: PipeOwner, host: str, port: int, *, tls: Any = None, server_name: str | None = None
    ) -> None:
        owner.connection_made(Answered(owner))

    def sockets_max(self, wanted: int) -> int:
        return wanted

    async def listen(self, make_owner: Callable[[], PipeOwner], host: str, port: int, *, tls: Any = None) -> Listening:
        raise AssertionError("a producer listens nowhere")


def _answer(header: dict[str, Any]) -> bytes:
    is_route = header["code"] == ROUTE_REQUEST
    answer = {
        "code": 0, "extFields": {} if is_route else STORED, "flag": 1, "language": "JAVA", "opaque": header["opaque"],
        "serializeTypeCurrentRPC": "JSON", "version": 477,
    }  # fmt: skip
    text = json.dumps(answer).encode()
    body = ROUTE if is_route else b""
    return LENGTH.pack(4 + len(text) + len(body)) + LENGTH.pack(len(text)) + text + body


async def alone(producer: Producer, messages: int) -> None:
    """One after the other."""
    for _ in range(messages):
        await producer.send(TOPIC, BODY)


async def at_once(producer: Producer, messages: int) -> None:
    """Many tasks, each with its share: what a turn of the loop sends goes in one write."""
    await asyncio.gather(*(alone(producer, messages // AT_ONCE) for _ in range(AT_ONCE)))


async def in_batches(producer: Producer, messages: int) -> None:
    batch = [Message(TOPIC, BODY) for _ in range(BATCH)]
    for _ in range(messages // BATCH):
        await producer.send_batch(batch)


async def one_way(producer: Producer, messages: int) -> None:
    for _ in range(messages):
        await producer.send_one_way(TOPIC, BODY)


async def sent(messages: int, way: Callable[[Producer, int], Awaitable[None]]) -> None:
    async with Producer(name_servers=NAME_SERVER, world=replace(real_world(), network=InMemory())) as producer:
        await producer.send(TOPIC, BODY)
        await way(producer, messages)


CASES: dict[str, Callable[[int], Coroutine[Any, Any, None]]] = {
    "send": partial(sent, way=at_once),
    "send-alone": partial(sent, way=alone),
    "send-batch": partial(sent, way=in_batches),
    "send-one-way": partial(sent, way=one_way),
}
