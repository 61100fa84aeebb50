"""Every public method, called from a thread that is not the event loop's: it acts as it does there, or refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from framework import App, Message, Producer, consumer
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from framework.testing.harness import Harness
from tests.patience import PATIENCE_S, until
from tests.runtime.test_app import box, run, running, send

ANY, REFUSES, READS, ONCE = "safe from any thread", "refuses", "changes nothing", "runs once, wherever that is"
# A method that is new fails the test below until it stands here, with what it does in another thread.
METHODS: dict[type, dict[str, str]] = {
    App: {
        "run": ONCE, "stop": ANY, "stop_soon": ANY, "accompany": ANY, "start_consumer": ANY, "pause": ANY,
        "resume": ANY, "resize": ANY, "subscribe": ANY, "unsubscribe": ANY, "adopt": ANY, "from_yaml": READS,
        "member": READS, "counts": READS, "idle_ms": READS, "stopping": READS, "is_ready": READS, "snapshot": READS,
        "IS_APPLICATION": READS, "started": READS, "lifespan": ONCE,
    },
    Producer: {
        "start": REFUSES, "stop": REFUSES, "send": REFUSES, "send_batch": REFUSES, "send_one_way": REFUSES,
        "recall": REFUSES, "request": REFUSES, "queue_of": REFUSES, "transaction": REFUSES, "cluster": READS,
    },
    Harness: {
        "send": REFUSES, "settle": REFUSES, "sleep": REFUSES, "restart": REFUSES, "crash": REFUSES, "now": READS,
        "attempts": READS, "published": READS, "dead_letters": READS, "snapshot": READS, "logs": READS,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_every_public_method_stands_in_the_table(kind: type) -> None:
    assert set(METHODS[kind]) == {name for name in vars(kind) if not name.startswith("_")}


async def elsewhere(work: Callable[[], Any]) -> Any:
    """What a thread of somebody else's gets of it; the loop goes on meanwhile."""
    found: list[Any] = []

    def act() -> None:
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            found.append(error)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    await until(lambda: not thread.is_alive())
    return found[0]


@consumer(topic="orders", group="billing")
async def bill(message: Message) -> None: ...


@consumer(topic="bills", group="billing")
async def file(message: Message) -> None: ...


@consumer(topic="orders", group="later")
async def later(message: Message) -> None: ...


async def nothing() -> None: ...


def with_drain(settings: AppSettings, drain_ms: int) -> AppSettings:
    return settings.model_copy(update={"app": settings.app.model_copy(update={"drain": drain_ms})})


def paused_and_resumed(app: App) -> None:
    app.pause("billing")
    app.resume("billing")


def subscribed_and_not(app: App) -> None:
    app.subscribe(file)
    app.unsubscribe("billing", "bills")


CHANGES: dict[str, tuple[Callable[[App], object], Callable[[App], object]]] = {
    "pause": (lambda app: app.pause("billing"), lambda app: app._groups[0].plan.settings.paused),
    "resume": (paused_and_resumed, lambda app: not app._groups[0].plan.settings.paused),
    "resize": (lambda app: app.resize("billing", 3), lambda app: app._groups[0].plan.settings.concurrency == 3),
    "subscribe": (lambda app: app.subscribe(file), lambda app: "bills" in app._groups[0].subscriptions),
    "unsubscribe": (subscribed_and_not, lambda app: "bills" not in app._groups[0].subscriptions),
    "start_consumer": (lambda app: app.start_consumer("later"), lambda app: len(app._groups) == 2),
    "adopt": (lambda app: app.adopt(with_drain(app.settings, 7)), lambda app: app._drain_ms == 7),
    "accompany": (lambda app: app.accompany(nothing(), "beside"), lambda app: len(app._plugin_tasks) == 1),
    "stop_soon": (lambda app: app.stop_soon(), lambda app: app._life.asked.is_set()),
    "stop": (lambda app: asyncio.run(app.stop()), lambda app: not app._life.is_running),
}


def test_every_method_that_is_safe_is_tried() -> None:
    assert {name for name, how in METHODS[App].items() if how == ANY} == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_from_another_thread_is_made_and_the_application_goes_on(name: str) -> None:
    async def scenario() -> None:
        change, has_changed = CHANGES[name]
        async with box() as broker:
            await send(broker, "orders", "1", "2", "3")
            values = {
                "cluster": {"name_servers": [broker.address]},
                "consumers": {"billing": {"start": "first"}, "later": {"autostart": False}},
            }
            app = App(AppSettings.model_validate(values), [bill, later], plugins=PluginHost())
            task = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: app.is_ready and app.counts.handled == 3)
            result = await elsewhere(lambda: change(app))
            assert not isinstance(result, Exception), repr(result)
            await until(lambda: has_changed(app))
            if not app._life.asked.is_set():
                if name == "pause":
                    app.resume("billing")
                await send(broker, "orders", "4")
                await until(lambda: app.counts.handled >= 4)
            await app.stop(drain="1m")
            assert (0, 0) == ((counts := await task).abandoned, counts.unconfirmed)

    run(scenario)


def test_what_is_wrong_is_raised_where_it_was_asked_for() -> None:
    async def scenario() -> None:
        async with box() as broker, running(broker, bill) as app:
            await until(lambda: app.is_ready)
            error = await elsewhere(lambda: app.pause("biling"))
            assert "did you mean 'billing'" in str(error)

    run(scenario)


@pytest.mark.parametrize("how", ["stopped", "cancelled"])
def test_what_has_ended_is_not_ready_and_takes_no_changes(how: str) -> None:
    async def scenario() -> None:
        async with box() as broker:
            values = {"cluster": {"name_servers": [broker.address]}}
            app = App(AppSettings.model_validate(values), [bill], plugins=PluginHost())
            task = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: app.is_ready)
            assert app.snapshot().is_ready
            if how == "stopped":
                app.stop_soon()
                await until(app._life.asked.is_set)
                assert not app.is_ready, "it drains, and is given nothing more"
                await task
            else:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert (False, False) == (app.is_ready, app.snapshot().is_ready)
            acts: list[Callable[[], None]] = [lambda: app.pause("billing"), lambda: app.resize("billing", 2)]
            for act in acts:
                assert "has stopped" in str(await elsewhere(act))
                with pytest.raises(ConfigurationError, match="has stopped"):
                    act()

    run(scenario)


def test_a_change_that_meets_the_end_does_not_wait_for_ever() -> None:
    """Nobody looks any more at what was handed over: the loop that ran it stands."""
    loop = asyncio.new_event_loop()
    found: list[BaseException] = []

    async def scenario() -> App:
        async with box() as broker:
            values = {"cluster": {"name_servers": [broker.address]}}
            app = App(AppSettings.model_validate(values), [bill], plugins=PluginHost())
            task = loop.create_task(app.run())
            await until(lambda: app.is_ready)
            await app.stop()
            await task
        return app

    app = loop.run_until_complete(scenario())
    app._life._stopped.clear()
    app._life.is_running = True  # as in the moment before its end

    def act() -> None:
        try:
            app.pause("billing")
        except ConfigurationError as error:
            found.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    app._life.is_running = False
    thread.join()
    loop.close()
    assert "stopped before this was done" in str(found[0])


def test_the_end_is_waited_for_from_another_loop_though_this_one_ends_with_it() -> None:
    """`asyncio.run` cancels what is left in its loop: whoever waits elsewhere hears of the end all the same."""
    ready = threading.Event()
    found: list[object] = []

    async def scenario() -> None:
        async with box() as broker:
            app = App(
                AppSettings.model_validate({"cluster": {"name_servers": [broker.address]}}),
                [bill],
                plugins=PluginHost(),
            )

            async def waits() -> None:
                try:
                    await app.stop()
                    found.append(None)
                except BaseException as error:  # noqa: BLE001 - it is what is looked at
                    found.append(error)

            async def ask() -> None:
                await until(lambda: app.is_ready)
                threading.Thread(target=wait_there).start()

            def wait_there() -> None:
                asyncio.run(waits())
                ready.set()

            asking = asyncio.get_running_loop().create_task(ask())
            await app.run()
            await asking

    asyncio.run(scenario())
    assert ready.wait(PATIENCE_S)
    assert [None] == found


PRODUCING: dict[str, Callable[[Producer], Awaitable[object]]] = {
    "start": lambda producer: producer.start(),
    "stop": lambda producer: producer.stop(),
    "send": lambda producer: producer.send("orders", b"1"),
    "send_batch": lambda producer: producer.send_batch([Message("orders", b"1")]),
    "send_one_way": lambda producer: producer.send_one_way("orders", b"1"),
    "recall": lambda producer: producer.recall("handle"),
    "request": lambda producer: producer.request("orders", b"1"),
    "queue_of": lambda producer: producer.queue_of("orders", "key"),
    "transaction": lambda producer: producer.transaction(Message("orders", b"1")).__aenter__(),
}


def test_every_method_of_a_producer_that_refuses_is_tried() -> None:
    assert {name for name, how in METHODS[Producer].items() if how == REFUSES} == set(PRODUCING)


@pytest.mark.parametrize("name", PRODUCING)
def test_a_producer_refuses_another_loop_and_says_how_to_hand_over(name: str) -> None:
    async def act(producer: Producer) -> None:
        await PRODUCING[name](producer)

    async def scenario() -> None:
        async with box() as broker, Producer(name_servers=[broker.address]) as producer:
            await producer.send("orders", b"before")
            error = await elsewhere(lambda: asyncio.run(act(producer)))
            assert isinstance(error, ConfigurationError)
            assert f"run_coroutine_threadsafe(producer.{name}(...), loop)" in str(error)
            await producer.send("orders", b"after")

    run(scenario)


@pytest.mark.parametrize(
    "act",
    [
        lambda desk: desk.send("orders", b"1"),
        lambda desk: desk.settle(),
        lambda desk: desk.sleep("1s"),
        lambda desk: desk.restart(),
        lambda desk: desk.crash(),
    ],
    ids=["send", "settle", "sleep", "restart", "crash"],
)
def test_a_harness_stays_in_its_thread(act: Callable[[Harness], object]) -> None:
    with Harness(bill) as desk:
        found: list[BaseException] = []

        def other() -> None:
            try:
                act(desk)
            except AssertionError as error:
                found.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert "in the thread that entered" in str(found[0])
        desk.send("orders", b"2")
        desk.settle()
