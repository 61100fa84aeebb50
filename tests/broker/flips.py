"""Random flipped bits in a store at rest: what is served, and what is named."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from framework.broker.store.database import FILE_NAME
from framework.broker.store.offsets import Offsets
from framework.broker.store.sent_back import GroupPlace
from framework.errors import FrameworkError
from tests.broker.store_lab import Lab, fake_text, folder_lab

QUEUES = 3


TAGS = (0, 64, 2_000_000_000, -7)
WANTED = TAGS[2:]
OFFSETS = {("billing", "t", number): 10 + number for number in range(QUEUES)}
RESETS = {("billing", "t", 1): 4, ("audit", "t", 0): 0}


def filled(folder: Path, messages: int, seed: int) -> dict[int, list[bytes]]:
    """A store with messages of all sizes, some larger than a page, and what groups have committed; each queue's texts.

    A message's tag is told by its number, the first word of its text.
    """
    chance = random.Random(seed)
    texts: dict[int, list[bytes]] = {number: [] for number in range(QUEUES)}
    lab = folder_lab(folder)
    offsets = Offsets(lab.database.writing, "broker-a", 1000)
    for table in (offsets.table, offsets.resets):
        lab.store.writer.attach(table)
    for place, offset in OFFSETS.items():
        offsets.put(*place, offset)
    for place, offset in RESETS.items():
        offsets.resets.put(GroupPlace(*place), offset)
    for i in range(messages):
        number = chance.randrange(QUEUES)
        text = b"%d " % i + chance.randbytes(chance.choice((10, 200, 900, 6000)))
        texts[number].append(text)
        lab.append("t", number, text, tag=TAGS[i % len(TAGS)])
        if i % 10 == 0:
            lab.timers.turn()
    lab.timers.turn()
    lab.store.close()
    return texts


def damage_often(folder: Path, *, seed: int, times: int, is_cut: bool = False, messages: int = 100) -> Counter[str]:
    """One flipped bit at a time, or one lost end of the file: what came of each."""
    source = folder / "source"
    texts = filled(source, messages, seed)
    whole = (source / FILE_NAME).read_bytes()
    chance = random.Random(seed)
    target = folder / "damaged"
    target.mkdir(mode=0o700)
    counts: Counter[str] = Counter()
    for _ in range(times):
        damaged = bytearray(whole)
        if is_cut:
            del damaged[chance.randrange(1, len(whole)) :]
        else:
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (target / FILE_NAME).write_bytes(damaged)
        outcome, read = _outcome(target, texts)
        counts[outcome] += 1
        counts["rows read"] += read
        for path in target.iterdir():
            path.unlink()
    return counts


def _outcome(folder: Path, texts: dict[int, list[bytes]]) -> tuple[str, int]:
    """What a broker makes of it, and how many messages its consumers would get."""
    try:
        lab = folder_lab(folder)
    except FrameworkError:
        return "named", 0
    worst, count = "unharmed", 0
    try:
        offsets = Offsets(lab.database.writing, "broker-a", 1000)
        if (dict(offsets.table.items()), dict(offsets.resets.items())) != (OFFSETS, RESETS):
            return "wrong offset", count
        for number, expected in texts.items():
            found, error = _read(lab, number)
            count += len(found)
            if found != expected[: len(found)]:
                return "wrong", count
            if error is not None:
                worst = "named"
            elif len(found) < len(expected):
                return "silent", count
            found, error = _read(lab, number, WANTED)
            wanted = [text for text in expected if TAGS[int(text.split(b" ")[0]) % len(TAGS)] in WANTED]
            if found != wanted[: len(found)]:
                return "wrong by tag", count
            if error is not None:
                worst = "named"
            elif len(found) < len(wanted):
                return "silent by tag", count
    finally:
        lab.store.close()
    return worst, count


def _read(lab: Lab, number: int, tags: tuple[int, ...] = ()) -> tuple[list[bytes], FrameworkError | None]:
    """What a consumer of everything, or of some tags, would get, as far as it comes."""
    found: list[bytes] = []
    queue, log = lab.store.queues.find("broker-a", "t", number), lab.store.log
    at = queue.low if queue is not None else 0
    try:
        while queue is not None and at < queue.end:
            if not tags:
                part = log.read(queue, at, count_max=32, bytes_max=1 << 20)
            else:
                part = log.read_tagged(queue, at, tags, count_max=32, bytes_max=1 << 20)
            found += [fake_text(record) for record in part.records]
            at = part.next_offset
    except FrameworkError as error:
        return found, error
    return found, None
