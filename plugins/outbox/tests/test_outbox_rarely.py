"""Relays in virtual time whose claims, sends and notes last, or fail: seeds draw which, and for how long."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from framework_outbox import relay as relays
from structlog.testing import capture_logs

from framework import Message, marks
from framework.testing.sim.streams import Stream
from tests.outbox_desk import Desk, until
from tests.simulation.rare.bends import RunBends
from tests.simulation.rare.rare_marks import OUTBOX, Active, RareMarks
from tests.simulation.workload import Workload

SEEDS = range(30)
KEYS, EACH = ("K", "L"), 6
LEASE_S, TIMEOUT_S = 3.0, 1.0


class WatchedDesk(Desk):
    """Notes what is wrong with a send at the moment at which it begins."""

    def __init__(self, folder: Path, chance: Stream) -> None:
        super().__init__(folder, batch=4, timeout=int(TIMEOUT_S * 1000), lease=int(LEASE_S * 1000), retry_first=100)
        self.chance, self.busy = chance, Counter[str]()
        self.wrongs: list[str] = []

    async def _send(self, message: Message) -> None:
        body = message.body.decode()
        key, number = body[0], int(body[1:])
        missing = [f"{key}{each}" for each in range(number) if f"{key}{each}" not in self.bodies]
        if missing:
            self.wrongs.append(f"{body} is sent before {missing[0]}")
        if self.busy[key]:
            self.wrongs.append(f"{body} is sent beside another of its key")
        self.busy[key] += 1
        self.takes_seconds = self.chance.pick((0.01, 0.3, 0.8))
        try:
            await super()._send(message)
        finally:
            self.busy[key] -= 1


def drawn(seed: int) -> RareMarks:
    chance = Stream(f"{seed}/outbox")
    active = [Active(name, chance.pick((0.1, 0.3)), chance.pick((0.2, 1.5, 4.0))) for name in OUTBOX]
    return RareMarks(tuple(each for each in active if chance.happens(0.6)))


def played(seed: int, folder: Path) -> tuple[list[str], Counter[str]]:
    """What was wrong, and how often each mark did what it does."""
    folder.mkdir()
    fired: Counter[str] = Counter()
    is_over = False
    desk = WatchedDesk(folder, Stream(f"{seed}/takes"))
    bends = RunBends(
        Workload(rare=drawn(seed)), lambda name: Stream(f"{seed}/{name}"), lambda: is_over,
        lambda name, _: fired.update((name,)),
    )  # fmt: skip
    for number in range(EACH):
        for key in KEYS:
            desk.write(f"{key}{number}", key=key)

    async def story() -> None:
        nonlocal is_over
        loop = asyncio.get_running_loop()
        both = [desk.relay(), desk.relay("two", desk.open())]
        running = [loop.create_task(relay.run()) for relay in both]
        async with asyncio.timeout(300):
            await until(lambda: loop.time() >= 40.0 or len(set(desk.bodies)) == len(KEYS) * EACH)
            is_over = True
            await until(lambda: desk.table.status().waiting == 0)
        for relay in both:
            relay.stop()
        await asyncio.gather(*running)

    marks.install(bends=bends)
    try:
        with capture_logs():
            desk.play(story)
    finally:
        marks.install()
    missing = {f"{key}{number}" for key in KEYS for number in range(EACH)} - set(desk.bodies)
    return [*desk.wrongs, *(f"{body} was never sent" for body in sorted(missing))], fired


def test_whatever_lasts_or_fails_each_key_keeps_its_order_and_nothing_is_lost(tmp_path: Path) -> None:
    fired: Counter[str] = Counter()
    for seed in SEEDS:
        wrong, each = played(seed, tmp_path / str(seed))
        fired += each
        assert [] == wrong, f"seed {seed}: {drawn(seed)}"
    assert set(OUTBOX) == set(fired)


def test_a_claim_that_counts_from_its_answer_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had looked when a claim was asked for: another relay has the rows by now."""
    monkeypatch.setattr(relays._Pass, "until", property(lambda _: float("inf"), lambda *_: None), raising=False)
    assert any(played(seed, tmp_path / str(seed))[0] for seed in SEEDS)
