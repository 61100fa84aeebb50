"""What was acknowledged survives SIGKILL under load, batches whole and offsets dense: forked writers, and the command.

The full figures (`make slow PART=kills`) are 1,000 forked writers and 50 commands, in parts.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from framework.errors import BrokerUnreachable
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.send import SendRequestV2
from framework.wire.stored import decode_records
from tests.broker.broker_lab import pull_command, send_command
from tests.broker.test_server import PATIENCE_MS, connected
from tests.cli.processes import command
from tests.wire import batches

ROOT = Path(__file__).parents[2]
SENDERS = 8
QUEUES = 2


def forked(*arguments: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.broker.kills", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


def test_sixty_forked_writers_are_killed() -> None:
    counts = forked("--kills", "60", "--seed", "1")

    assert (60, 0, 0, 0) == tuple(counts[name] for name in ("kills", "lost", "torn", "holes")), counts
    assert counts["told"] > 60


def test_a_writer_that_answers_too_early_is_found_out() -> None:
    """A kill must fall between the answer and the commit, so there are as many rounds as that takes on a fast disk."""
    rounds = (
        forked("--kills", "12", "--seed", str(seed), "--without", "an answer leaves after the commit")
        for seed in range(2, 12)
    )

    assert any(counts["lost"] > 0 for counts in rounds)


def test_the_command_is_killed(tmp_path: Path) -> None:
    kill_commands(tmp_path, kills=5, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(590)
@pytest.mark.parametrize("part", range(5))
def test_a_thousand_kills_of_forked_writers(part: int) -> None:
    counts = forked("--kills", "200", "--seed", str(1000 + part))
    print(f"kills, part {part}: {counts}")

    assert (200, 0, 0, 0) == tuple(counts[name] for name in ("kills", "lost", "torn", "holes")), counts


@pytest.mark.slow
@pytest.mark.timeout(590)
@pytest.mark.parametrize("part", range(2))
def test_fifty_kills_of_the_command(part: int, tmp_path: Path) -> None:
    print(f"kills of the command, part {part}: {kill_commands(tmp_path, kills=25, seed=1000 + part)}")


def kill_commands(folder: Path, *, kills: int, seed: int) -> dict[str, int]:
    """Kill `framework-app broker` again and again while clients send, and look at what the next one has."""
    chance = random.Random(seed)
    told: dict[bytes, int] = {}
    counts = {"kills": 0, "told": 0, "stored": 0}
    for _ in range(kills + 1):
        with command("broker", "--data", "box", folder=folder) as broker:
            address = broker.until("broker: ready").split("namesrv=")[1].split()[0]
            asyncio.run(_look(address, told))
            if counts["kills"] == kills:
                counts["told"], counts["stored"] = len(told), asyncio.run(_look(address, told))
                assert 0 == broker.end()
                return counts
            wanted = len(told) + chance.randrange(20, 400)
            asyncio.run(_load(address, told, wanted, broker.process, chance))
            broker.process.wait()
            counts["kills"] += 1
    raise AssertionError("returns above")


async def _load(
    address: str, told: dict[bytes, int], wanted: int, process: subprocess.Popen[str], chance: random.Random
) -> None:
    async with connected(address) as channel:

        async def send_on(number: int) -> None:
            while True:
                name = b"%012x" % chance.getrandbits(48)
                size = chance.choice((1, 1, 4))
                try:
                    answer = await channel.request(_sending(name, size, number), timeout_ms=PATIENCE_MS)
                except BrokerUnreachable:
                    return
                if answer.code == 0:
                    told[name] = size
                if len(told) >= wanted:
                    process.kill()

        await asyncio.gather(*(send_on(i % QUEUES) for i in range(SENDERS)))


def _sending(name: bytes, size: int, number: int) -> RemotingCommand:
    bodies = [b"%s/%d/%d" % (name, i, size) for i in range(size)]
    if size == 1:
        return send_command("t", bodies[0], queue_id=number)
    return RemotingCommand(
        RequestCode.SEND_BATCH_MESSAGE,
        to_fields(_header(number)),
        batches.encode([batches.BatchedMessage(body) for body in bodies]),
    )


def _header(number: int) -> SendRequestV2:
    return SendRequestV2(
        producer_group="p", topic="t", default_topic="TBW102", default_topic_queue_nums=4, queue_id=number, sys_flag=0,
        born_timestamp=1_600_000_000_000, flag=0, batch=True,
    )  # fmt: skip


async def _look(address: str, told: dict[bytes, int]) -> int:
    """Everything acknowledged is there, every batch is whole and in one piece, and no offset is missing."""
    found: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    total = 0
    async with connected(address) as channel:
        for number in range(QUEUES):
            at = 0
            while (answer := await _pull(channel, number, at)).code == 0:
                for record in decode_records(answer.body):
                    assert record.queue_offset == at
                    name, index, size = record.body.split(b"/")
                    found[name].append((at - int(index), int(size)))
                    at += 1
            total += at
    for sent, count in told.items():
        assert len(found[sent]) == count, f"lost: {sent!r}, {count} messages, found {found[sent]}"
    for stored, parts in found.items():
        assert parts == [parts[0]] * parts[0][1], f"torn: {stored!r}, {parts}"
    return total


async def _pull(channel: Any, number: int, at: int) -> RemotingCommand:
    answer: RemotingCommand = await channel.request(pull_command(at, queue_id=number), timeout_ms=PATIENCE_MS)
    return answer
