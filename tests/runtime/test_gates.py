"""`ready_when`: a group joins when the function says so, and the application is not ready before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, consumer, resource
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.model.snapshot import Snapshot
from framework.runtime import dormant
from framework.settings.schema import AppSettings
from framework.testing import Harness
from tests.patience import until
from tests.runtime.test_app import box, run

WAITS = "group not ready"


class Cache:
    """Warm after it was asked three times."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self) -> object:
        self.asked += 1
        if self.asked == 1:
            raise OSError("no connection")
        return "17 of 20 tables" if self.asked == 2 else self.asked == 4


@resource
def cache() -> Cache:
    return Cache()


def is_warm(cache: Cache) -> object:
    return cache.answer()


async def is_warm_some_time(cache: Cache) -> object:
    await asyncio.sleep(0.1)
    return cache.answer()


@pytest.mark.parametrize("gate", [is_warm, is_warm_some_time])
def test_a_group_joins_when_its_function_answers_true(gate: Callable[..., Any]) -> None:
    @consumer("orders", "billing", ready_when=gate)
    async def bill(message: Message) -> None: ...

    with Harness(bill) as desk:
        assert desk.now > 3, "it was asked four times, a second apart"
        started = next(line for line in desk.logs if line["event"] == "app started")
        joined = next(line for line in desk.logs if line["event"] == "group started")
        waiting = [line for line in desk.logs if line["event"] == WAITS]
        desk.send("orders", "tea")
        assert ["handled"] == [event["event"] for event in desk.settle()]

    assert started["at"] + 3 <= joined["at"]
    assert ["OSError: no connection", "17 of 20 tables", "it answered False"] == [line["reason"] for line in waiting]
    assert {gate.__name__} == {line["asked"] for line in waiting}


def test_the_application_is_not_ready_and_names_the_group_until_then() -> None:
    pictures: list[Snapshot] = []

    async def look() -> bool:
        pictures.append(desk.snapshot())
        return len(pictures) == 4

    @consumer("orders", "billing", ready_when=look)
    async def bill(message: Message) -> None: ...

    @consumer("parcels", "depot")
    async def receive(message: Message) -> None: ...

    desk = Harness([bill, receive])
    with desk:
        after = desk.snapshot()
    last = pictures[-1]
    assert (False, ("billing",), ["depot"]) == (last.is_ready, last.dormant, [each.group for each in last.groups])
    assert last.groups[0].is_balanced, "the other group had joined meanwhile"
    assert (True, ()) == (after.is_ready, after.dormant)


def test_a_function_that_takes_too_long_has_answered_no() -> None:
    calls = 0

    async def hangs_once() -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return True

    @consumer("orders", "billing", ready_when=hangs_once)
    async def bill(message: Message) -> None: ...

    with Harness(bill) as desk:
        assert ["no answer within 10 s"] == [line["reason"] for line in desk.logs if line["event"] == WAITS]


class Hanging:
    """Two functions that hang until they are let go, each as badly as it can."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = threading.Event()
        self.threads: set[int] = set()

    def plain(self) -> bool:
        self.asked += 1
        self.threads.add(threading.get_ident())
        self.go.wait()
        return True

    async def awaited(self) -> bool:
        self.asked += 1
        while not self.go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue  # it shrugs off that it was given up
        return True


@pytest.mark.parametrize("kind", ["plain", "awaited"])
@pytest.mark.parametrize("ends", ["it answers at last", "the application stops first"])
def test_one_that_hangs_is_asked_no_second_time_and_no_stop_waits_for_it(
    kind: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look each second for a day was a thread each eleven seconds: 7,800 of them."""
    for name, seconds in (("ASK_SECONDS", 0.001), ("ANSWER_SECONDS", 0.002), ("LEAVE_SECONDS", 0.05)):
        monkeypatch.setattr(dormant, name, seconds)
    hanging, looks, closed_because = Hanging(), [0], dormant._Question.closed_because

    async def counted(question: Any) -> str | None:
        looks[0] += 1
        return await closed_because(question)

    monkeypatch.setattr(dormant._Question, "closed_because", counted)

    async def scenario() -> None:
        def plain() -> bool:
            return hanging.plain()

        async def awaited() -> bool:
            return await hanging.awaited()

        gate = plain if kind == "plain" else awaited

        @consumer("orders", "billing", ready_when=gate)
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            settings = {"cluster": {"name_servers": [broker.address]}}
            app = App(AppSettings.model_validate(settings), [bill], plugins=PluginHost(discover=list))
            task = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: looks[0] > 20)
            assert ("billing",) == app.snapshot().dormant
            if ends == "it answers at last":
                hanging.go.set()
                await until(lambda: app.is_ready)
            await app.stop()
            await task
            hanging.go.set()

    with capture_logs() as logs:
        run(scenario)

    assert 1 == hanging.asked
    assert len(hanging.threads) == (kind == "plain")
    left = [line["asked"] for line in logs if line["event"].startswith("ready check abandoned")]
    assert left == ([] if ends == "it answers at last" else [kind])
    assert ["no answer within 0.002 s"] == [line["reason"] for line in logs if line["event"] == WAITS]


def test_a_timeout_of_its_own_is_no_missing_answer() -> None:
    asked: list[None] = []

    async def pings() -> bool:
        asked.append(None)
        if len(asked) == 1:
            raise TimeoutError("the database")
        return True

    @consumer("orders", "billing", ready_when=pings)
    async def bill(message: Message) -> None: ...

    with Harness(bill) as desk:
        assert ["TimeoutError: the database"] == [line["reason"] for line in desk.logs if line["event"] == WAITS]


@pytest.mark.parametrize(
    ("gate", "complaint"),
    [
        (True, "ready_when=True: write a function that returns whether the group may start"),
        (lambda cach: True, "ready_when: parameter 'cach' is no known resource; did you mean 'cache'?"),
        (lambda message: True, "ready_when: parameter 'message' is no known resource"),
    ],
)
def test_what_cannot_be_asked_is_refused_where_it_stands(gate: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        consumer("orders", "billing", ready_when=gate)(lambda message: None)
    assert complaint in str(caught.value)
    assert "test_gates.py:" in str(caught.value)


def test_it_goes_with_neither_autostart_false_nor_a_group_that_runs() -> None:
    @consumer("orders", "billing", ready_when=lambda: True)
    async def bill(message: Message) -> None: ...

    @consumer("amendments", "billing", ready_when=lambda: True)
    async def amend(message: Message) -> None: ...

    settings = AppSettings.model_validate({"consumers": {"billing": {"autostart": False}}})
    with pytest.raises(ConfigurationError, match="both decide when the group starts"):
        asyncio.run(App(settings, [bill]).run())

    with Harness(bill) as desk:
        app = desk._cluster.apps[0].app
        assert app is not None

        async def subscribing() -> None:
            app.subscribe(amend)

        with pytest.raises(ConfigurationError, match="ready_when has no effect"):
            desk._run(subscribing())
