"""Each setting that is live is seen to act within a second of its file being written, on an application that runs.

In virtual time, so that the second is exact: the file's watch, the reading and the taking over are the shipped ones.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog

from framework import Message, consumer
from framework.runtime.app import App
from framework.runtime.reload import Reload
from framework.settings.fields import OnEdit
from framework.settings.schema import AppSettings
from framework.settings.sources import load
from framework.testing import Harness
from tests.settings.marks import marked

WITHIN_S = 1.0
LOOK_S = 0.05


class Desk:
    """An application of one group whose handlers take as long as `pause_s`, with its file and the watch on it."""

    def __init__(self, path: Path, before: str) -> None:
        self.path = path
        self.pause_s = 0.1
        self.running = self.began = 0
        path.write_text(before)

        @consumer("orders", "billing")
        async def bill(message: Message) -> None:
            self.running += 1
            self.began += 1
            try:
                await asyncio.sleep(self.pause_s)
            finally:
                self.running -= 1

        self.harness = Harness(bill, settings=load(path))

    @property
    def app(self) -> App:
        app = self.harness._cluster.apps[0].app
        assert app is not None
        return app

    def settings(self) -> AppSettings:
        """As the file has them; where the cluster is the harness alone knows."""
        return load(self.path).model_copy(update={"cluster": self.app.settings.cluster})

    def watch(self) -> None:
        cluster = self.harness._cluster
        node = cluster.apps[0].node
        assert node is not None
        reload = Reload(self.app, self.settings, [self.path])
        cluster.loop.spawn(node, reload.run(), name="reload")
        self.harness.sleep("1s")

    def send(self, count: int, size: int = 10) -> None:
        """Bodies that nobody can compress."""
        for number in range(count):
            self.harness.send("orders", Random(number).randbytes(size))

    def write(self, text: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    @property
    def held(self) -> int:
        """Messages that are pulled and not settled."""
        (group,) = self.harness.snapshot().groups
        return sum(queue.messages for queue in group.queues)

    @property
    def said(self) -> list[str]:
        return [str(line["event"]) for line in self.harness.logs]


@dataclass(frozen=True)
class Case:
    before: str
    after: str
    acts: Callable[[Desk], bool]
    """Whether what was written is seen to act."""
    prepare: Callable[[Desk], None] = lambda desk: desk.send(40)
    pause_s: float = 0.1


def billing(**values: Any) -> str:
    return json.dumps({"consumers": {"billing": {"start": "first", "concurrency": 2, **values}}})


def big(desk: Desk) -> None:
    desk.send(24, 60_000)


def has_begun_more_slowly(desk: Desk) -> bool:
    """Of forty a second, one each half second is left."""
    before = desk.began
    desk.harness.sleep("500ms")
    return desk.began - before <= 2


def stops_within_a_second(desk: Desk) -> bool:
    """A handler that takes an hour is left behind; the limit was an hour, too."""
    began = desk.harness.now
    if desk.app.settings.app.drain != 300:
        return False
    desk.harness._run(desk.harness._cluster.leave_all())
    return desk.harness.now - began < WITHIN_S


CASES: dict[tuple[str, ...], Case] = {
    ("consumers", "*", "concurrency"): Case(billing(), billing(concurrency=7), lambda desk: desk.running == 7),
    ("consumers", "*", "paused"): Case(billing(), billing(paused=True), lambda desk: desk.running == 0),
    ("consumers", "*", "rate"): Case(  # what is handed over already still runs, so little may be
        billing(concurrency=4, cache_count=1, pull_batch=1),
        billing(concurrency=4, cache_count=1, pull_batch=1, rate="2/s"), has_begun_more_slowly,
        lambda desk: desk.send(400),
    ),
    ("consumers", "*", "timeout"): Case(
        billing(expiry="drop"), billing(expiry="drop", timeout="100ms"),
        lambda desk: bool(desk.harness.events) and desk.harness.events[0]["event"] == "dropped", pause_s=3_600,
    ),
    ("consumers", "*", "expiry"): Case(
        billing(timeout="1400ms", expiry="extend"), billing(timeout="1400ms", expiry="drop"),
        lambda desk: any(event["event"] == "dropped" for event in desk.harness.events),
        lambda desk: desk.send(2), 3_600,
    ),
    ("consumers", "*", "breaker"): Case(
        billing(timeout="100ms", expiry="drop"), billing(timeout="100ms", expiry="drop", breaker=3),
        lambda desk: "breaker opened" in desk.said, pause_s=3_600,
    ),
    ("consumers", "*", "cache_count"): Case(
        billing(cache_count=1, pull_batch=1), billing(cache_count=8, pull_batch=1), lambda desk: desk.held >= 30,
        pause_s=3_600,
    ),
    ("consumers", "*", "cache_bytes"): Case(
        billing(cache_bytes="64KiB", pull_batch=1), billing(cache_bytes="1MiB", pull_batch=1),
        lambda desk: desk.held >= 20, big, 3_600,
    ),
    ("consumers", "*", "topic_count"): Case(
        billing(topic_count=4, pull_batch=1), billing(topic_count=40, pull_batch=1), lambda desk: desk.held >= 30,
        pause_s=3_600,
    ),
    ("consumers", "*", "topic_bytes"): Case(
        billing(topic_bytes="64KiB", pull_batch=1), billing(topic_bytes="4MiB", pull_batch=1),
        lambda desk: desk.held >= 20, big, 3_600,
    ),
    ("app", "budget"): Case(
        json.dumps({"app": {"budget": "1MiB"}, **json.loads(billing(pull_batch=1))}),
        json.dumps({"app": {"budget": "8MiB"}, **json.loads(billing(pull_batch=1))}),
        lambda desk: desk.held >= 24, big, 3_600,
    ),
    ("app", "drain"): Case(
        json.dumps({"app": {"drain": "1h"}, **json.loads(billing())}),
        json.dumps({"app": {"drain": "300ms"}, **json.loads(billing())}), stops_within_a_second, pause_s=3_600,
    ),
    ("app", "killed_after"): Case(
        json.dumps({"app": {"drain": "10s", "killed_after": "60s"}}),
        json.dumps({"app": {"drain": "10s", "killed_after": "5s"}}), lambda desk: "setting unsafe" in desk.said,
    ),
}  # fmt: skip


@pytest.mark.parametrize("setting", sorted(CASES), ids=".".join)
def test_a_live_setting_acts_within_a_second(tmp_path: Path, setting: tuple[str, ...]) -> None:
    case = CASES[setting]
    desk = Desk(tmp_path / "framework-app.yaml", case.before)
    desk.pause_s = case.pause_s
    harness = desk.harness
    with harness:
        desk.watch()
        case.prepare(desk)
        harness.sleep("500ms")
        assert setting[-1] == "drain" or not case.acts(desk), "or it would show nothing"
        desk.write(case.after)
        written = harness.now
        while not case.acts(desk):
            assert harness.now - written < WITHIN_S + 0.5 * (case.acts is has_begun_more_slowly), setting
            harness.sleep(LOOK_S)
        desk.pause_s = 0.0
        assert 1 == desk.said.count("setting changed")


def test_a_file_that_is_written_in_place_is_never_taken_half(tmp_path: Path) -> None:
    """Cut off behind a line, YAML is mostly right and says something else."""
    whole = "consumers:\n  billing:\n    concurrency: 7\n"
    desk = Desk(tmp_path / "framework-app.yaml", whole)
    with desk.harness as harness:
        desk.watch()
        seen = set[int]()
        for text in ("consumers:\n", "consumers:\n  billing:\n", f"{whole}    paused: true\n"):
            desk.path.write_text(text)
            for _ in range(3):
                harness.sleep("30ms")
                seen.add(desk.app.settings.consumer("billing").concurrency)
        harness.sleep("1s")
        billing = desk.app.settings.consumer("billing")
        assert {7} == seen | {billing.concurrency}
        assert billing.paused, "what is there at last has been read"


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    before: dict[str, Any] = structlog.get_config()
    yield
    structlog.configure(**before)


LOGGING: dict[tuple[str, ...], tuple[str, str, Callable[[str], bool]]] = {
    ("logging", "level"): ("{level: error}", "{level: info}", lambda written: "setting changed" in written),
    ("logging", "format"): (
        "{format: console}", "{format: json}",
        lambda written: any(
            line.startswith("{") and json.loads(line)["event"] == "setting changed" for line in written.splitlines()
        ),
    ),
    ("logging", "levels"): ("{levels: {}}", "{levels: {a.library: debug}}", lambda written: "some detail" in written),
}  # fmt: skip


@pytest.mark.usefixtures("_logging_as_before")
@pytest.mark.parametrize("setting", sorted(LOGGING), ids=".".join)
def test_logging_changes_within_a_second(
    tmp_path: Path, setting: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The very line that tells of the change is written as it says."""
    before, after, is_seen = LOGGING[setting]
    desk = Desk(tmp_path / "framework-app.yaml", f"logging: {before}")
    with desk.harness as harness:
        desk.watch()
        desk.write(f"logging: {after}")
        harness.sleep("950ms")
        logging.getLogger("a.library").debug("some detail")
        assert is_seen(capsys.readouterr().err)


def test_every_live_setting_is_seen_to_act() -> None:
    assert marked(OnEdit.LIVE) == CASES.keys() | LOGGING.keys()
