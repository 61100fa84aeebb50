"""Plain handlers that hang: however they are run, as many hang at once as the group promises, and it says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, RetryLater, consumer, publishes
from framework.errors import BodyUnavailable
from tests.patience import PATIENCE_S, until
from tests.runtime.group.test_expiry import settings_of
from tests.runtime.test_app import box, run, running, send

COUNT = 20
Way = Callable[["Hanging"], list[Any]]


class Hanging:
    """A plain function that hangs until it is let go, and how often it was at work at once."""

    def __init__(self) -> None:
        self.let_go, self._lock = threading.Event(), threading.Lock()
        self.begun = self.at_once = self.most = 0

    def hang(self) -> None:
        with self._lock:
            self.begun += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.let_go.wait(2 * PATIENCE_S)
        with self._lock:
            self.at_once -= 1


def on_threads(it: Hanging) -> list[Any]:
    @consumer("orders", "billing")
    def bill(message: Message) -> None:
        it.hang()

    return [bill]


def publishing(it: Hanging) -> list[Any]:
    @consumer("orders", "billing")
    @publishes("receipts")
    def bill(message: Message) -> str:
        it.hang()
        return "paid"

    return [bill]


def once(it: Hanging) -> list[Any]:
    @consumer("orders", "billing", once="1h")
    def bill(message: Message) -> None:
        it.hang()

    return [bill]


def several_topics(it: Hanging) -> list[Any]:
    """Of which one retry topic holds the messages that failed."""

    def handle(message: Message) -> None:
        if message.attempt == 1:
            raise ValueError("not yet")
        it.hang()

    return [consumer(topic, "billing")(handle) for topic in ("orders", "stock")]


def batches(it: Hanging) -> list[Any]:
    @consumer("orders", "billing", batch=2, linger="10ms")
    def bill(messages: list[Message]) -> None:
        it.hang()

    return [bill]


def broadcasting(it: Hanging) -> list[Any]:
    """What has failed is tried again where it is."""

    @consumer("orders", "billing", broadcasting=True)
    def bill(message: Message) -> RetryLater | None:
        if message.attempt == 1:
            return RetryLater("10ms")
        it.hang()
        return None

    return [bill]


def held(it: Hanging) -> list[Any]:
    """A message that cannot be opened is tried again, and can be opened then."""
    seen: set[str] = set()

    @consumer("orders", "billing")
    def bill(message: Message) -> None:
        if message.message_id not in seen:
            seen.add(message.message_id)
            raise BodyUnavailable("codec zstd is missing: install zstandard")
        it.hang()

    return [bill]


def hanging(app: App) -> int:
    """Places that are empty, as the snapshot has it."""
    return sum(group.hanging for group in app.snapshot().groups)


WAYS: list[Way] = [on_threads, publishing, once, several_topics, batches, broadcasting, held]


@pytest.mark.parametrize("way", WAYS)
def test_as_many_hang_at_once_as_promised(way: Way, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where a broadcasting group keeps its offsets

    async def scenario() -> None:
        it = Hanging()
        with capture_logs() as lines:
            await hung(it, lines)
        assert 6 == it.most, "nothing began while no place was left"
        places = [place for each in lines if each["event"] == "handlers hung" for place in each["places"]]
        assert all(".hang(group/test_hanging.py:" in place for place in places), places

    async def hung(it: Hanging, lines: list[MutableMapping[str, Any]]) -> None:
        async with box() as broker:
            await send(broker, "stock", "one")
            await send(broker, "orders", *map(str, range(COUNT)))
            settings: dict[str, Any] = {"timeout": "100ms", "expiry": "drop", "concurrency": 2, "max_retries": 16}
            async with running(broker, *way(it), **settings) as app:
                try:
                    await until(lambda: hanging(app) == 2, "two places are empty")
                    await until(lambda: [each["event"] for each in lines if each["event"] == "handlers hung"])
                    assert (4, False) == (it.at_once, app.is_ready)
                    app.adopt(settings_of(app, concurrency=3))
                    await until(lambda: hanging(app) == 3, "three are")
                    assert (6, False) == (it.at_once, app.is_ready)
                    app.adopt(settings_of(app, concurrency=1))
                    assert (1, False) == (hanging(app), app.is_ready)
                finally:
                    it.let_go.set()
                await until(lambda: app.is_ready and not it.at_once)
                await until(lambda: app.idle_ms() > 0)
                assert app.counts.late >= 6

    run(scenario)


@pytest.mark.parametrize("publishes_too", [False, True])
def test_an_orderly_group_runs_as_many_as_it_may_and_gives_none_up(*, publishes_too: bool) -> None:
    async def scenario() -> None:
        it = Hanging()

        def bill(message: Message) -> None:
            it.hang()

        handler = consumer("orders", "billing", orderly=True)(publishes("receipts")(bill) if publishes_too else bill)
        async with box() as broker:
            await send(broker, "orders", *map(str, range(COUNT)))
            async with running(broker, handler, concurrency=2) as app:
                try:
                    await until(lambda: it.at_once == 2)
                    app.adopt(settings_of(app, concurrency=3))
                    await until(lambda: it.at_once == 3)
                    await until(lambda: app.is_ready)
                    assert 0 == hanging(app)
                finally:
                    it.let_go.set()
                await until(lambda: app.counts.handled == COUNT)
        assert 3 == it.most

    run(scenario)
