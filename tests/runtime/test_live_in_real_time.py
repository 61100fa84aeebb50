"""Each live setting on an application that runs, in real time: a file is written, and what it says is seen to act.

Beside a broker in the box, with the shipped watch on the file. That it takes no more than a second is held in virtual
time (`test_live_settings.py`); here it is waited for, and the figures are told: `make slow PART=live_in_real_time`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog

from framework import App, Message, Producer, consumer
from framework.net.real_clock import RealClock
from framework.net.task_tree import TaskTree
from framework.runtime.logs import setup
from framework.runtime.reload import Reload
from framework.settings.fields import OnEdit
from framework.settings.sources import load
from tests.patience import until
from tests.runtime.test_app import box
from tests.settings.marks import marked

Settings = dict[str, Any]
A_WHILE_S, FOR_EVER_S = 0.2, 3_600
WINDOW_S = 0.5
PAGES, PAGE_BYTES = 40, 60_000


@dataclass(frozen=True)
class Case:
    path: tuple[str, ...]
    is_seen: Callable[[], object]
    to: object


class Desk:
    """An application of two groups: orders, whose handlers take `pause_s`, and pages, which never end and are large."""

    def __init__(self, path: Path, name_server: str, capture: pytest.CaptureFixture[str]) -> None:
        self.path, self.capture = path, capture
        self.pause_s = A_WHILE_S
        self.running = self.began = self.endless = 0
        self.wanted: Settings = {
            "cluster": {"name_servers": [name_server]},
            "app": {"budget": "1MiB", "drain": "1h"},
            "logging": {"level": "error"},
            "consumers": {
                "billing": {
                    "start": "first", "pull_batch": 1, "concurrency": 2, "cache_count": 1, "topic_count": 40,
                    "expiry": "extend",
                },
                "archive": {
                    "start": "first", "pull_batch": 1, "concurrency": 1, "cache_bytes": "64KiB", "topic_bytes": "64KiB",
                },
            },
        }  # fmt: skip
        self.took_ms: dict[tuple[str, ...], float] = {}
        """Setting -> from its file's writing to its being seen."""
        self.write()

        @consumer("orders", "billing")
        async def bill(message: Message) -> None:
            pause_s, is_endless = self.pause_s, self.pause_s == FOR_EVER_S
            self.running += 1
            self.began += 1
            self.endless += is_endless
            try:
                await asyncio.sleep(pause_s)
            finally:
                self.running -= 1
                self.endless -= is_endless

        @consumer("pages", "archive")
        async def store(message: Message) -> None:
            await asyncio.sleep(FOR_EVER_S)

        self.app = App(load(path), [bill, store])

    def write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.wanted))
        new.replace(self.path)

    async def act(self, *cases: Case) -> None:
        """Write these settings, and wait until each is seen to act; another one's would never be."""
        for case in cases:
            part = self.wanted
            for step in case.path[:-1]:
                part = part[step]
            part[case.path[-1]] = case.to
        began = RealClock.monotonic()
        self.write()
        waiting = list(cases)
        while waiting:
            for case in [each for each in waiting if each.is_seen()]:
                general = (case.path[0], "*", case.path[2]) if case.path[0] == "consumers" else case.path
                self.took_ms[general] = (RealClock.monotonic() - began) * 1000
                waiting.remove(case)
            await asyncio.sleep(0.005)

    def held(self, group: str) -> int:
        """Messages that are pulled and not settled."""
        return sum(
            queue.messages for each in self.app.snapshot().groups if each.group == group for queue in each.queues
        )

    async def began_in_window(self) -> int:
        before = self.began
        await asyncio.sleep(WINDOW_S)
        return self.began - before

    def says(self, probe: Callable[[], object], text: str) -> Callable[[], bool]:
        def is_written() -> bool:
            probe()
            return text in self.capture.readouterr().err

        return is_written


async def _fill(name_server: str) -> None:
    async with Producer(name_servers=[name_server]) as producer:
        chance = Random(7)
        for _ in range(PAGES):
            await producer.send("pages", chance.randbytes(PAGE_BYTES))  # nobody can compress them
        for number in range(700):
            await producer.send("orders", str(number))


@asynccontextmanager
async def desk(folder: Path, capture: pytest.CaptureFixture[str]) -> AsyncIterator[Desk]:
    async with box() as broker:
        await _fill(broker.address)
        it = Desk(folder / "framework-app.yaml", broker.address, capture)
        setup.configure(it.app.settings)
        tree = TaskTree()
        running = tree.start(it.app.run(), name="app")
        tree.start(Reload(it.app, lambda: load(it.path), [it.path]).run(), name="reload")
        try:
            await until(lambda: it.app.is_ready)
            yield it
            await running
        finally:
            await tree.close()


async def _everything(it: Desk) -> None:
    billing, archive = ("consumers", "billing"), ("consumers", "archive")
    # Flow limits: what stands in the way of each next one is raised before it, the budget of all at last.
    await until(lambda: it.held("archive") >= 4)
    await until(lambda: it.running == 2)
    it.pause_s = FOR_EVER_S
    await it.act(
        Case((*archive, "topic_bytes"), lambda: it.held("archive") >= 8, "16MiB"),
        Case((*billing, "cache_count"), lambda: it.held("billing") >= 30, 200),
    )
    await it.act(
        Case((*billing, "topic_count"), lambda: it.held("billing") >= 200, 400),
        Case((*billing, "concurrency"), lambda: it.running == 7, 7),
    )
    await it.act(Case((*archive, "cache_bytes"), lambda: it.held("archive") >= 12, "16MiB"))
    await it.act(Case(("app", "budget"), lambda: it.held("archive") == PAGES, "64MiB"))
    # What runs already is over its new limit, and is let run on; then what becomes of that is another policy's.
    it.wanted["logging"] = {"level": "info"}
    await it.act(Case((*billing, "timeout"), it.says(lambda: None, "handler extended"), "300ms"))
    log, library = structlog.get_logger(), logging.getLogger("a.library")
    await it.act(
        Case((*billing, "expiry"), lambda: it.app.counts.dropped >= 7, "drop"),
        Case(("logging", "level"), it.says(lambda: log.debug("a detail"), "a detail"), "debug"),
        Case(("logging", "levels"), lambda: not library.isEnabledFor(logging.WARNING), {"a": "error"}),
    )
    await it.act(Case((*billing, "breaker"), it.says(lambda: None, "breaker opened"), 5))
    it.pause_s = A_WHILE_S
    await until(lambda: not it.endless)
    it.wanted["consumers"]["billing"] |= {"timeout": "15m", "breaker": 0}
    await it.act(
        Case((*billing, "paused"), lambda: it.running == 0, to=True),
        Case(("logging", "format"), it.says(lambda: log.error("told"), '"event": "told"'), "json"),
    )
    it.wanted["consumers"]["billing"]["paused"] = False
    it.write()
    await until(lambda: it.running == 7)
    await _rate(it, (*billing, "rate"))
    it.pause_s = FOR_EVER_S
    await it.act(Case(("app", "killed_after"), it.says(lambda: None, "setting unsafe"), "10s"))
    await it.act(Case(("app", "drain"), lambda: it.app.settings.app.drain == 300, "300ms"))
    await it.app.stop()  # which would take the test's time, and another hour's, under the limit before


async def _rate(it: Desk, path: tuple[str, ...]) -> None:
    """Of a hundred a second two are left."""
    seen = asyncio.Event()

    async def look() -> None:
        while await it.began_in_window() > 2:
            pass
        seen.set()

    looking = TaskTree()
    await until(lambda: it.began > 0)
    while await it.began_in_window() <= 2:
        pass  # or it would show nothing
    looking.start(look(), name="look")
    await it.act(Case(path, seen.is_set, "2/s"))
    it.took_ms["consumers", "*", "rate"] -= WINDOW_S * 1000
    await looking.close()


@pytest.mark.long
def test_every_live_setting_is_seen_to_act_on_a_running_application(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, capsys) as it:
            await _everything(it)
        assert marked(OnEdit.LIVE) == set(it.took_ms)

    asyncio.run(scenario())


@pytest.mark.slow
def test_live_in_real_time_with_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five times; the medians and the longest stand in docs/measured.md."""
    taken: dict[str, list[float]] = {}
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()

        async def scenario(folder: Path = folder) -> None:
            async with desk(folder, capsys) as it:
                await _everything(it)
            for setting, took in it.took_ms.items():
                taken.setdefault(".".join(setting), []).append(took)

        asyncio.run(scenario())
    with capsys.disabled():
        for setting, times in sorted(taken.items()):
            print(f"\n{setting}: median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms", end="")
        every = [each for times in taken.values() for each in times]
        print(f"\nall: median {statistics.median(every):.0f} ms, longest {max(every):.0f} ms of {len(every)}")
