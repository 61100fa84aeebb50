"""Delays in real time, over real sockets and a real folder: once, never early, in due order.

How late is a figure and no assertion, for it is the machine's as well: `make slow PART=delayed_messages ARGS=-s` prints
it, and docs/measured.md has the last one.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from framework.broker.server import Broker
from framework.broker.settings import BrokerSettings
from framework.net.real_world import real_world
from framework.wire import frame
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import SUBSCRIPTION, SUSPEND
from framework.wire.stored import Record, decode_records
from tests.broker.broker_lab import pull_command, send_command, texts
from tests.wire.frames import decode_frame


class _Client:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: RemotingCommand) -> RemotingCommand:
        self._writer.write(frame.encode(request))
        return decode_frame(await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4))))

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def _connected(address: str) -> _Client:
    host, _, port = address.rpartition(":")
    return _Client(*await asyncio.open_connection(host, int(port)))


async def _late_ms(folder: Path, count: int, within_ms: tuple[int, int]) -> tuple[int, list[tuple[int, int, Record]]]:
    """When all were stored; and of each when it was due, when a consumer had it, and itself, as they came."""
    clock = real_world().clock
    broker = Broker(real_world(), data=folder, settings=BrokerSettings())
    await broker.start()
    producer, consumer = await _connected(broker.address), await _connected(broker.address)
    chance = random.Random(5)
    for number in range(count):
        due_ms = clock.now_ms() + chance.randrange(*within_ms)
        properties = texts(TIMER_DELIVER_MS=str(due_ms), KEYS=str(due_ms))
        answer = await producer.ask(send_command(body=b"%d" % number, properties=properties))
        assert ResponseCode.SUCCESS == answer.code
    sent_ms = clock.now_ms()
    came: list[tuple[int, int, Record]] = []
    while len(came) < count:
        pull = pull_command(len(came), sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=30_000)
        answer = await consumer.ask(pull)
        now_ms = clock.now_ms()
        if answer.code == ResponseCode.SUCCESS:
            came += [(int(record.properties["KEYS"]), now_ms, record) for record in decode_records(answer.body)]
    await asyncio.sleep(0.1)  # for one that would come twice
    last = await consumer.ask(pull_command(len(came)))
    assert ResponseCode.PULL_NOT_FOUND == last.code, "nothing more came"
    await producer.close()
    await consumer.close()
    await broker.stop()
    return sent_ms, came


def _check(sent_ms: int, came: list[tuple[int, int, Record]], count: int) -> None:
    assert [] == [(due_ms, at_ms) for due_ms, at_ms, _ in came if at_ms < due_ms], "none early"
    assert [] == [(due_ms, record.stored_ms) for due_ms, _, record in came if record.stored_ms < due_ms], (
        "nor seeming so"
    )
    assert [b"%d" % number for number in range(count)] == sorted((record.body for _, _, record in came), key=int)
    later = [due_ms for due_ms, _, _ in came if due_ms > sent_ms]  # the others may have been due before they were there
    assert sorted(later) == later, "in due order"


def test_messages_come_when_they_are_due_and_not_before(tmp_path: Path) -> None:
    _check(*asyncio.run(_late_ms(tmp_path / "data", 20, (30, 300))), 20)


@pytest.mark.slow
@pytest.mark.timeout(590)
@pytest.mark.parametrize("count", [200, 2000])
def test_delayed_messages_in_real_time(tmp_path: Path, count: int) -> None:
    """Two hundred within two seconds, and two thousand within ten."""
    within_ms = (500, 2500) if count == 200 else (20_000, 30_000)
    sent_ms, came = asyncio.run(_late_ms(tmp_path / "data", count, within_ms))
    _check(sent_ms, came, count)

    late = sorted(at_ms - due_ms for due_ms, at_ms, _ in came)
    stored = sorted(record.stored_ms - due_ms for due_ms, _, record in came)
    for what, each in (("stored", stored), ("received", late)):
        print(f"{what} late by, ms: median {each[count // 2]}, p99 {each[count * 99 // 100]}, most {each[-1]}")
