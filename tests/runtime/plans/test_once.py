"""`once` in a whole application in virtual time, and what cannot work with it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from framework import Message, RetryLater, consumer, publishes
from framework.errors import ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from framework.testing import Harness
from tests.simulation.left_out import left_out


def outcomes(events: list[dict[str, Any]]) -> Counter[str]:
    return Counter(event["event"] for event in events)


def number(message: Message) -> str:
    return message.keys[0]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_repeats_are_dropped_and_retries_are_not(*, is_async: bool, orderly: bool) -> None:
    tries: list[str] = []

    def act(body: str, message: Message) -> RetryLater | None:
        tries.append(body)
        return RetryLater("1s") if message.attempt == 1 and body == "again" else None

    async def act_async(body: str, message: Message) -> RetryLater | None:
        return act(body, message)

    handler: Any = act_async if is_async else act
    with Harness(consumer("orders", "billing", once="30m", key=number, orderly=orderly)(handler)) as desk:
        for body, key in (("tea", "1"), ("tea", "1"), ("again", "2")):
            desk.send("orders", body, keys=key)
            desk.settle()
        assert Counter(tea=1, again=2) == Counter(tries)
        desk.send("orders", "again", keys="2")
        assert Counter(dropped=1) == outcomes(desk.settle())
        (group,) = desk.snapshot().groups
        assert (2, 2, 0) == (group.repeats, group.dropped, group.once_failures)
        desk.sleep("31m")
        desk.send("orders", "tea", keys="1")
        assert Counter(handled=1) == outcomes(desk.settle())


def test_what_is_published_is_published_once() -> None:
    @consumer("orders", "billing", once="1h", key=number)
    @publishes("invoices")
    def bill(body: str) -> str:
        return body

    seen: list[str] = []

    @consumer("invoices", "post")
    async def post(body: str) -> None:
        seen.append(body)

    with Harness([bill, post]) as desk:
        for _ in range(2):
            desk.send("orders", "tea", keys="1")
            desk.settle()
    assert ["tea"] == seen


def test_a_file_tells_repeats_to_the_next_process(tmp_path: Path) -> None:
    @consumer("orders", "billing", once="1h", key=number)
    async def bill(body: str) -> None: ...

    settings = {"once": {"folder": str(tmp_path)}, "consumers": {"billing": {"once_store": "sqlite"}}}
    ended = []
    for _ in range(2):
        with Harness(bill, settings=settings) as desk:
            desk.send("orders", "tea", keys="1")
            ended.append(outcomes(desk.settle()))
    assert [Counter(handled=1), Counter(dropped=1)] == ended


def test_a_plugins_store_is_named_in_the_settings_and_its_failures_cost_no_message() -> None:
    class Broken:
        name = "redis"

        def open(self, means: Any) -> Any:
            return self

        async def has(self, key: str) -> bool:
            raise ConnectionError("no redis")

        async def record(self, key: str, keep_ms: int) -> None:
            raise ConnectionError("no redis")

        async def close(self) -> None: ...

    class Plugin:
        @hookimpl
        def register_dedup_stores(self) -> list[Any]:
            return [Broken()]

    @consumer("orders", "billing", once="1h", key=number)
    async def bill(body: str) -> None: ...

    settings = {"consumers": {"billing": {"once_store": "redis"}}}
    with Harness(bill, settings=settings, plugins=PluginHost(objects={"mine": Plugin()})) as desk:
        for _ in range(2):
            desk.send("orders", "tea", keys="1")
        assert Counter(handled=2) == outcomes(desk.settle())
        assert 4 == desk.snapshot().groups[0].once_failures


@pytest.mark.parametrize(
    ("options", "store", "reason"),
    [
        ({"once": "1h"}, "sqlit", "consumers.billing.once_store: no store 'sqlit'; did you mean 'sqlite'?"),
        ({}, "memory", "no handler of this group drops duplicates"),
        ({"once": "1h", "broadcasting": True}, "sqlite", "processes cannot share keys"),
    ],
)
def test_a_store_that_cannot_be_fails_the_start(options: dict[str, Any], store: str, reason: str) -> None:
    @consumer("orders", "billing", **options)
    async def bill(body: str) -> None: ...

    with (
        pytest.raises(ConfigurationError, match=re.escape(reason)),
        Harness(bill, settings={"consumers": {"billing": {"once_store": store}}}),
    ):
        pass


def test_a_topic_that_dropped_repeats_may_be_unsubscribed_and_settings_change_after_it() -> None:
    @consumer("orders", "billing", once="1h")
    async def bill(body: str) -> None: ...

    @consumer("refunds", "billing")
    async def refund(body: str) -> None: ...

    def settings_of(**more: Any) -> AppSettings:
        return AppSettings.model_validate({"consumers": {"billing": {"once_store": "memory", **more}}})

    with Harness([bill, refund], settings=settings_of()) as desk:
        app = desk._cluster.apps[0].app
        assert app is not None

        async def change() -> None:
            app.unsubscribe("billing", "orders")
            app.adopt(settings_of(concurrency=3))

        desk._run(change())
        assert "3" == desk.snapshot().groups[0].settings["concurrency"]


@pytest.mark.parametrize("is_mutant", [False, True])
def test_what_failed_is_handled_when_it_comes_again(*, is_mutant: bool) -> None:
    """The mutant without "a key is recorded after success only" drops it, and here is who notices."""
    done: list[str] = []

    @consumer("orders", "billing", once="30m", key=number)
    async def bill(body: str, message: Message) -> None:
        if message.attempt < 3:
            raise OSError("the other side does not answer")
        done.append(body)

    with left_out("a key is recorded after success only" if is_mutant else None), Harness(bill) as desk:
        desk.send("orders", "tea", keys="1")
        found = outcomes(desk.settle())
    assert (([], Counter(retry=1, dropped=1)) if is_mutant else (["tea"], Counter(retry=2, handled=1))) == (done, found)
