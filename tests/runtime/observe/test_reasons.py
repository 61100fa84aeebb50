"""Each reason for which a probe fails, read by HTTP while it holds, and well again without it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from framework import App, Message, RetryLater, consumer
from framework.broker.intercept import Interceptor
from framework.broker.server import Broker
from framework.core.consistency import OTHER_ORDER
from framework.net.task_tree import LoopFailures
from framework.runtime.membership import Membership
from framework.services import standstill
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.patience import PATIENCE_S, until
from tests.runtime.observe.asking import Page, page
from tests.runtime.observe.test_listener import observed
from tests.runtime.test_app import box, run, send
from tests.runtime.test_engine_groups import Engine, host, revenue

SYSTEM_ERROR = RemotingCommand(1, remark="not today")


@contextmanager
def refusing(broker: Broker, *codes: int) -> Iterator[None]:
    """The broker answers these requests with an error, until the end."""
    removers = [broker.intercept(Interceptor(code=code, answer=SYSTEM_ERROR, times=None)) for code in codes]
    try:
        yield
    finally:
        for remove in removers:
            remove()


@consumer("orders", "billing")
async def bill(message: Message) -> None: ...


def joined(app: App) -> Membership:
    return app._membership


async def both(port: int) -> tuple[Page, Page]:
    return await page(port, "/ready"), await page(port, "/live")


# Brokers that refuse, handlers that hang, gates that are closed: as they are in life


def test_not_ready_while_where_queues_begin_is_not_known() -> None:
    async def story() -> tuple[Page, Page]:
        async with box() as broker:
            await send(broker, "orders", "x")
            with refusing(broker, RequestCode.QUERY_CONSUMER_OFFSET):
                async with observed(broker, bill) as (app, port):
                    await until(lambda: any("begin is not known yet: " in each for each in app.snapshot().not_ready))
                    found = await both(port)
            return found

    ready, live = run(story)

    assert (503, 200) == (ready.status, live.status)
    (reason,) = ready.json["reasons"]
    assert reason.startswith("group billing: where its ")
    assert "not today" in reason


def test_not_ready_while_queues_are_not_divided() -> None:
    async def story() -> tuple[Page, Page]:
        async with box() as broker:
            await send(broker, "orders", "x")
            with refusing(broker, RequestCode.GET_CONSUMER_LIST_BY_GROUP):
                async with observed(broker, bill) as (app, port):
                    await until(lambda: joined(app).accepted.is_set() and bool(joined(app).groups))
                    return await both(port)

    ready, live = run(story)

    assert (503, 200) == (ready.status, live.status)
    assert any("divided" in each for each in ready.json["reasons"]), ready.json


def test_not_ready_while_no_broker_keeps_what_failed() -> None:
    @consumer("orders", "billing")
    async def fail(message: Message) -> RetryLater:
        return RetryLater("1h")

    ways = (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)

    async def story() -> tuple[Page, Page]:
        async with box() as broker:
            await send(broker, "orders", "x")
            with refusing(broker, *ways):
                async with observed(broker, fail) as (app, port):
                    await until(lambda: any("keeps a copy" in each for each in app.snapshot().not_ready))
                    return await both(port)

    ready, live = run(story)

    assert (503, 200) == (ready.status, live.status)
    assert "group billing: no broker keeps a copy of 1 failed messages yet" in ready.json["reasons"]


def test_not_ready_while_timed_out_handlers_hold_their_workers() -> None:
    may_go = threading.Event()

    @consumer("orders", "billing")
    def hang(message: Message) -> None:
        may_go.wait(PATIENCE_S)

    async def story() -> tuple[Page, Page]:
        async with box() as broker:
            await send(broker, "orders", *["x"] * 4)
            try:
                async with observed(broker, hang, group={"concurrency": 1, "timeout": "1s"}) as (app, port):
                    await until(lambda: any("workers are missing" in each for each in app.snapshot().not_ready))
                    found = await both(port)
                    may_go.set()
                    return found
            finally:
                may_go.set()

    ready, live = run(story)

    assert (503, 200) == (ready.status, live.status)
    assert "handlers that were given up do not end" in ready.json["reasons"][0]


def test_not_ready_while_a_group_waits_for_its_function_and_when_a_stop_has_begun() -> None:
    is_open, may_end, is_there = threading.Event(), asyncio.Event(), asyncio.Event()

    def is_warm() -> bool:
        return is_open.is_set()

    @consumer("orders", "billing", ready_when=is_warm)
    async def slow(message: Message) -> None:
        is_there.set()
        await may_end.wait()

    async def story() -> tuple[Page, Page, Page, Page]:
        async with box() as broker:
            await send(broker, "orders", "x")
            async with observed(broker, slow) as (app, port):
                await until(lambda: app.snapshot().phase == "running")
                waiting = await page(port, "/ready")
                is_open.set()
                await is_there.wait()
                await until(lambda: app.is_ready)
                well = await page(port, "/ready")
                stopping = asyncio.get_running_loop().create_task(app.stop(drain="30s"))
                await until(lambda: not app.is_ready)
                found = waiting, well, await page(port, "/ready"), await page(port, "/live")
                may_end.set()
                await stopping
                return found

    waiting, well, stopping, live = run(story)

    assert (503, 200, 503, 200) == (waiting.status, well.status, stopping.status, live.status)
    assert ["group billing waits for its ready_when"] == waiting.json["reasons"]
    assert "the application is stopping" in stopping.json["reasons"]


def test_not_ready_while_the_handlers_of_a_topic_fail_all() -> None:
    is_well = threading.Event()

    @consumer("orders", "billing")
    async def fail(message: Message) -> None:
        if not is_well.is_set():
            raise KeyError("card")

    async def story() -> tuple[Page, Page, Page]:
        async with box() as broker:
            await send(broker, "orders", *["x"] * 4)
            async with observed(broker, fail, group={"breaker": 2}) as (app, port):
                await until(lambda: any("one at a time is tried" in each for each in app.snapshot().not_ready))
                found = await both(port)
                is_well.set()
                await until(lambda: app.is_ready)
                return *found, await page(port, "/ready")

    ready, live, after = run(story)

    assert (503, 200, 200) == (ready.status, live.status, after.status)
    (reason,) = ready.json["reasons"]
    assert reason.startswith("group billing: the handler of orders fails: ")
    assert "KeyError" in reason


def test_not_live_while_a_queue_stands_still_for_no_known_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a defect would make it: its loop has ended, and nobody is told."""
    monkeypatch.setattr(standstill, "LOOK_SECONDS", 0.05)

    async def story() -> tuple[Page, Page, Page]:
        async with box() as broker:
            await send(broker, "orders", "x")
            async with observed(broker, bill) as (app, port):
                await until(lambda: app.is_ready and app.counts.handled == 1)
                (group,) = joined(app).groups
                watch = joined(app).standstill
                assert watch is not None
                start_anew = group.start_anew
                with monkeypatch.context() as patched:
                    patched.setattr(type(group), "start_anew", lambda *_: None)
                    for queue in group.owned:
                        group._tasks[queue].cancel()
                    watch._most_s = 0.0
                    await send(broker, "orders", *["x"] * 16)
                    await until(lambda: bool(watch.named))
                    found = await both(port)
                for pull in list(group.owned.values()):
                    start_anew(pull)
                await until(lambda: app.counts.handled == 17 and not watch.named)
                return *found, await page(port, "/live")

    ready, live, after = run(story)

    assert (503, 503, 200) == (ready.status, live.status, after.status)
    assert live.json["reasons"][0].startswith("queue orders@broker-a:")
    assert live.json["reasons"][0].endswith("has stalled: messages wait, and nothing moves for no known reason")


def test_not_live_where_an_engine_has_ended_by_an_error_since_nothing_else_starts_it_again() -> None:
    may_break = threading.Event()

    class Broken(Engine):
        def run(self) -> None:
            may_break.wait(PATIENCE_S)
            raise KeyError("card")

    async def story() -> tuple[Page, Page, Page]:
        async with box() as broker, observed(broker, revenue, plugins=host(Broken())) as (app, port):
            await until(lambda: app.is_ready)
            well = await page(port, "/live")
            may_break.set()
            await until(lambda: not app.is_ready)
            return well, *await both(port)

    well, ready, live = run(story)

    assert (200, 503, 503) == (well.status, ready.status, live.status)
    assert ["group revenue: its engine own has ended: KeyError: 'card'"] == live.json["reasons"]


# What takes minutes to come about, or another member: the state that it leaves is put in its place


def _held(app: App) -> Callable[[], object]:
    joined(app).joining.held["billing"] = 30_000
    return joined(app).joining.held.clear


def _failed(app: App) -> Callable[[], object]:
    failures = LoopFailures()
    failures.add("KeyError: 'orders'")
    found: dict[str, LoopFailures] = joined(app).failed_loops  # type: ignore[assignment]  # its owner's
    found["rebalance"] = failures
    return found.clear


def _mixed(app: App) -> Callable[[], object]:
    check = next(iter(joined(app).consistency_checks))
    check.found[OTHER_ORDER] = ("10.0.0.7@1#2",)
    return check.found.clear


def _without_room(app: App) -> Callable[[], object]:
    rooms = joined(app).cluster.retry_rooms
    rooms._lacking["billing", "broker-a"] = 0
    return rooms._lacking.clear


def _no_group(app: App) -> Callable[[], object]:
    groups = joined(app).groups
    kept = list(groups)
    groups.clear()
    return lambda: groups.extend(kept)


STATES: dict[str, tuple[Callable[[App], Callable[[], object]], str]] = {
    "held": (_held, "group billing joins 30 s after its start, since this member came and went too often"),
    "failed": (_failed, "loop rebalance failed and is tried again soon: KeyError: 'orders'"),
    "mixed": (_mixed, "group billing: some members lock its queues and some do not, so that nobody keeps the order"),
    "without room": (_without_room, "billing"),
    "no group": (_no_group, "no group runs here"),
}


def test_each_state_that_takes_long_to_come_about_is_a_reason_while_it_lasts() -> None:
    async def story() -> dict[str, tuple[Page, Page, Page]]:
        found: dict[str, tuple[Page, Page, Page]] = {}
        async with box() as broker:
            await send(broker, "orders", "x")
            async with observed(broker, bill) as (app, port):
                await until(lambda: app.is_ready)
                for name, (begin, _) in STATES.items():
                    end = begin(app)
                    during = await both(port)
                    end()
                    found[name] = *during, await page(port, "/ready")
        return found

    for name, (ready, live, after) in run(story).items():
        assert (503, 200, 200) == (ready.status, live.status, after.status), name
        assert any(STATES[name][1] in each for each in ready.json["reasons"]), (name, ready.json)


def test_the_tests_above_and_beside_them_have_every_reason_there_is() -> None:
    """A new reason needs a test that sees it by HTTP, and a row here."""
    import re
    from pathlib import Path

    from framework.runtime import engine_groups
    from framework.runtime.report import reasons

    source = Path(reasons.__file__).read_text() + Path(engine_groups.__file__).read_text()
    here = {
        "the application is", "no group runs here", "no broker has accepted", "joins", "some members lock",
        "failed and is tried", "begin is not known", "are away", "keeps a copy", "workers are missing", "has stalled",
        "has not answered", "waits for its", "its engine", "fails: ",
    }  # fmt: skip
    said = [
        line
        for line in re.findall(r'(?:yield|return) \(?\s*f?"([^"]+)"', source)
        if "{reason}" not in line and line.strip(" <")
    ]
    assert len(here) == len(said), said
    for line in said:
        assert any(each in line for each in here), line
