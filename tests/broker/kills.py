"""SIGKILL under load: writers are forked, killed at any moment, and what they were told is looked for.

    python -m tests.broker.kills --kills 1000 --seed 7

A process of its own, with one thread, so that forking is cheap and safe. The last line is JSON: what was counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from framework.broker.store.database import open_folder
from framework.broker.store.store import Store
from framework.broker.store.writer import Transaction
from framework.net.real_world import real_world
from framework.ports import DiskUsage
from tests.broker.store_lab import Lab, fake_record, folder_lab
from tests.patience import PATIENCE_S
from tests.simulation.left_out import left_out

QUEUES = 3
SENDERS = 8
LIFE_S = (0.0, 0.1)  # from the first acknowledged message; each tenth life is counted from the fork
_TOLD = Struct(">qiqii")  # batch, queue, first offset, messages, size of each text


class Told(NamedTuple):
    batch: int
    number: int
    offset: int
    messages: int
    size: int

    def texts(self) -> list[bytes]:
        return [_text(self.batch, i, self.messages, self.size) for i in range(self.messages)]


def _text(batch: int, index: int, count: int, size: int) -> bytes:
    head = b"%d/%d/%d " % (batch, index, count)
    return head + bytes((batch + i) % 251 for i in range(size))


async def _write(folder: Path, pipe: int, chance: random.Random) -> None:
    """Senders that go on for ever; each tells the pipe what it was told."""
    world, loop = real_world(), asyncio.get_running_loop()
    store = Store(open_folder(folder), world.clock, world.workers, loop.call_soon, disk=lambda _: DiskUsage(0, 1 << 40))

    def send() -> None:
        batch, number = chance.getrandbits(48), chance.randrange(QUEUES)
        count, size = chance.choice((1, 1, 2, 5)), chance.choice((10, 300, 6000))

        def change(transaction: Transaction) -> int:
            texts = Told(batch, number, 0, count, size).texts()
            stored = [transaction.append("broker-a", "t", number, fake_record(text), 0) for text in texts]
            return stored[0].offset

        def told(offset: int, error: Exception | None) -> None:
            if error is None:
                os.write(pipe, _TOLD.pack(batch, number, offset, count, size))
            loop.call_soon(send)

        store.writer.submit(change, told)

    for _ in range(SENDERS):
        send()
    await asyncio.Event().wait()


class Kills:
    """One folder, life after life."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self._checked = [0] * QUEUES
        self.counts = {"kills": 0, "told": 0, "lost": 0, "torn": 0, "holes": 0, "messages": 0}

    def one(self) -> None:
        """Let a writer live for a moment, kill it, and look."""
        told = self._life()
        self.counts["kills"] += 1
        self.counts["told"] += sum(each.messages for each in told)
        lab = folder_lab(self._folder)
        for number in range(QUEUES):
            self._look(lab, number, [each for each in told if each.number == number])
        lab.store.close()

    def whole(self) -> None:
        """At the end once more everything, from the first offset on."""
        lab = folder_lab(self._folder)
        for number in range(QUEUES):
            ends = len(lab.texts("t", number, count_max=1 << 30))
            self.counts["holes"] += ends != self._checked[number]
            self.counts["messages"] += ends
        lab.store.close()

    def _life(self) -> list[Told]:
        reading, writing = os.pipe()
        seed = self._chance.getrandbits(32)
        process = os.fork()
        if process == 0:
            os.close(reading)
            try:
                asyncio.run(_write(self._folder, writing, random.Random(seed)))
            finally:
                os._exit(1)
        os.close(writing)
        if self._chance.random() > 0.1:
            select.select([reading], [], [], PATIENCE_S)
        said = _read_for(reading, self._chance.uniform(*LIFE_S))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        while part := os.read(reading, 1 << 16):
            said += part
        os.close(reading)
        return [Told(*_TOLD.unpack_from(said, at)) for at in range(0, len(said) // _TOLD.size * _TOLD.size, _TOLD.size)]

    def _look(self, lab: Lab, number: int, told: list[Told]) -> None:
        start = self._checked[number]
        queue = lab.store.queues.find("broker-a", "t", number)
        texts = lab.texts("t", number, start, count_max=1 << 30)
        if queue is not None and start + len(texts) != queue.end:
            self.counts["holes"] += 1
        for each in told:
            at = each.offset - start
            if at < 0 or texts[at : at + each.messages] != each.texts():
                self.counts["lost"] += each.messages
        at = 0
        while at < len(texts):
            _, index, count = (int(part) for part in texts[at].partition(b" ")[0].split(b"/"))
            heads = [text.partition(b" ")[0].split(b"/")[1:] for text in texts[at : at + count]]
            self.counts["torn"] += index != 0 or heads != [[b"%d" % i, b"%d" % count] for i in range(count)]
            at += count
        self._checked[number] = start + len(texts)


def _read_for(pipe: int, seconds: float) -> bytes:
    """What comes in that time: read all along, or the writer would wait for room in the pipe."""
    said = b""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            part = os.read(pipe, 1 << 16)
            if not part:
                break
            said += part
    return said


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--without", help="a safeguard to leave out, to see that it is missed")
    arguments = parser.parse_args()
    with left_out(arguments.without), tempfile.TemporaryDirectory() as name:
        kills = Kills(Path(name) / "data", arguments.seed)
        for _ in range(arguments.kills):
            kills.one()
        kills.whole()
    print(json.dumps(kills.counts))
    return 0 if kills.counts["lost"] + kills.counts["torn"] + kills.counts["holes"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
