"""A running application, read by HTTP: metrics, probes, the snapshot; also while its event loop cannot answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from framework import App, DeadLetter, Message, Producer, RetryLater, consumer
from framework.broker.server import Broker
from framework.hooks.host import PluginHost
from framework.mistakes import ListenerWrong
from framework.net.real_world import RealWatchman
from framework.runtime import control
from framework.runtime.observe import listener
from framework.runtime.observe.listener import ObserveListener
from framework.runtime.observe.metrics import NAMES
from framework.settings.schema import AppSettings, ObserveSettings
from tests.patience import PATIENCE_S, until
from tests.ports import free_port
from tests.runtime.observe.asking import Page, page, read, series
from tests.runtime.test_app import box, run, send


@asynccontextmanager
async def observed(
    broker: Broker,
    *handlers: Any,
    group: Mapping[str, Any] | None = None,
    plugins: PluginHost | None = None,
    **observe: Any,
) -> AsyncIterator[tuple[App, int]]:
    """The application while it runs, and where it is read. `group`: more settings of its groups."""
    port = free_port()
    settings = AppSettings.model_validate(
        {
            "cluster": {"name_servers": [broker.address]},
            "consumers": {handler.spec.group: {"start": "first", **(group or {})} for handler in handlers},
            "observe": {"listen": f"127.0.0.1:{port}", **observe},
        }
    )
    app = App(settings, handlers, plugins=plugins or PluginHost())
    task = asyncio.get_running_loop().create_task(app.run())
    try:
        await until(lambda: task.done() or app.snapshot().phase in {"starting", "running"})
        yield app, port
    finally:
        await app.stop(drain="1m")
        await task


def test_everything_is_read_of_an_application_that_runs() -> None:
    @consumer("orders", "billing")
    async def bill(message: Message) -> DeadLetter | RetryLater | None:
        match message.body:
            case b"bad":
                return DeadLetter("bad")
            case b"later" if message.attempt == 1:
                return RetryLater("1h")
            case _:
                return None

    async def story() -> None:
        async with box() as broker:
            await send(broker, "orders", *["good", "good", "bad", "later"])
            async with observed(broker, bill) as (app, port):
                await until(lambda: app.is_ready and app.counts.handled == 3)
                await until(lambda: app.counts.dead_lettered == 1 and app.counts.retried == 1)
                async with Producer(cluster=app.cluster) as producer:
                    await producer.send("elsewhere", b"x")
                metrics, by_worker = await page(port, "/metrics"), await page(port, "/metrics?by=worker")
                ready, live, startup = [await page(port, path) for path in ("/ready", "/live", "/startup")]
                snapshot, other = await page(port, "/snapshot"), await page(port, "/elsewhere")

        assert 200 == metrics.status
        assert metrics.kind.startswith("application/openmetrics-text; version=1.0.0")
        found, group = series(metrics.body), 'consumer_group="billing"'
        assert 3 == found[f'framework_app_messages_total{{{group},outcome="handled"}}']
        assert 1 == found[f'framework_app_messages_total{{{group},outcome="retried"}}']
        assert 1 == found[f'framework_app_messages_total{{{group},outcome="dead_lettered"}}']
        assert 1 == found["framework_app_ready"]
        assert 1 == found["framework_app_live"]
        assert 4 == found[f'messaging_process_duration_seconds_count{{{group},topic="orders"}}']
        assert 1 <= found['messaging_client_operation_duration_seconds_count{operation="send"}']
        assert 4 == found[f'messaging_client_consumed_messages_total{{{group},topic="orders"}}']
        assert 1 <= found["messaging_client_sent_messages_total"]
        assert (
            1 <= found[f'messaging_client_operation_duration_seconds_count{{{group},operation="pull",topic="orders"}}']
        )
        assert 0 < found[f"framework_app_rebalances_total{{{group}}}"]
        assert " # {message_id=" in metrics.body
        assert {"probe": "ready", "ok": True, "reasons": [], "processes": 1} == ready.json
        assert (200, 200, 200, 404) == (ready.status, live.status, startup.status, other.status)
        assert "billing" == snapshot.json["workers"][0]["snapshot"]["groups"][0]["own_name"]
        assert 1 == series(by_worker.body)['framework_app_ready{worker="0"}']
        assert "# EOF" == metrics.body.splitlines()[-1]

    run(story)


def test_every_metric_that_is_named_is_announced() -> None:
    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    async def story() -> Page:
        async with box() as broker, observed(broker, bill) as (app, port):
            await until(lambda: app.is_ready)
            return await page(port, "/metrics")

    found = run(story)

    announced = {line.split()[2] for line in found.body.splitlines() if line.startswith("# TYPE")}
    assert set(NAMES) == announced


def test_a_blocked_loop_does_not_live_and_it_is_said_where_it_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who restarts it for that shall know why; nothing on the loop could say it."""
    monkeypatch.setattr(control, "ANSWER_SECONDS", 0.2)
    may_go, is_there, is_watched = threading.Event(), threading.Event(), threading.Event()

    @consumer("orders", "billing")
    async def block_the_loop(message: Message) -> None:
        await until(is_watched.is_set)
        is_there.set()
        may_go.wait(PATIENCE_S)

    async def story() -> list[Page]:
        async with box() as broker:
            await send(broker, "orders", "x")
            async with observed(broker, block_the_loop) as (_, port):
                found: list[Page] = []

                def look() -> None:
                    is_watched.set()
                    try:
                        assert is_there.wait(PATIENCE_S)
                        found.extend(
                            read(port, path) for path in ("/live", "/ready", "/metrics", "/snapshot", "/startup")
                        )
                    finally:
                        may_go.set()

                looking = threading.Thread(target=look)
                looking.start()
                await until(lambda: not looking.is_alive(), patience_s=5 * PATIENCE_S)
                return [*found, await page(port, "/live")]

    live, ready, metrics, snapshot, startup, after = run(story)

    assert [503, 503, 200, 503, 503] == [each.status for each in (live, ready, metrics, snapshot, startup)]
    assert "blocked at" in live.json["reasons"][0]
    assert "Event.wait" in live.json["reasons"][0]
    assert 1 == series(metrics.body)["framework_app_processes_silent"]
    assert 200 == after.status


def test_a_paused_group_is_ready_and_a_broker_that_is_away_is_not() -> None:
    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    async def story() -> tuple[Page, Page, Page]:
        async with box() as broker:
            await send(broker, "orders", "x")
            async with observed(broker, bill) as (app, port):
                await until(lambda: app.counts.handled == 1 and app.is_ready)
                app.pause("billing")
                paused = await page(port, "/ready")
                app.resume("billing")
                await broker.stop()
                await until(lambda: any("are away" in each for each in app.snapshot().not_ready))
                return paused, await page(port, "/ready"), await page(port, "/live")

    paused, away, live = run(story)

    assert 200 == paused.status
    assert 503 == away.status
    assert any(each.startswith("group billing: the brokers of all its ") for each in away.json["reasons"])
    assert 200 == live.status  # a restart brings no broker back


def test_a_member_for_which_no_queue_is_left_is_ready() -> None:
    """Else a roll-out of more members than queues would hang."""

    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    async def story() -> tuple[Page, Page]:
        async with box() as broker, AsyncExitStack() as stack:
            await send(broker, "orders", "x")
            members = [await stack.enter_async_context(observed(broker, bill))]
            await until(lambda: members[0][0].is_ready and bool(members[0][0].snapshot().groups[0].queues))
            topic = [each for each in members[0][0].snapshot().groups[0].queues if each.place[0] == "orders"]
            members += [await stack.enter_async_context(observed(broker, bill)) for _ in topic]
            await until(lambda: all(app.is_ready for app, _ in members) and sum(idle(app) for app, _ in members) == 1)
            (port,) = [port for app, port in members if idle(app)]
            return await page(port, "/ready"), await page(port, "/live")

    def idle(app: App) -> bool:
        return not [each for each in app.snapshot().groups[0].queues if each.place[0] == "orders"]

    ready, live = run(story)

    assert (200, 200) == (ready.status, live.status)
    assert [] == ready.json["reasons"]


def test_before_a_broker_has_accepted_it_it_has_started_and_is_not_ready() -> None:
    """Startup must not wait for a broker: an outage would restart every process."""

    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    async def story() -> tuple[Page, Page, Page]:
        port = free_port()
        settings = AppSettings.model_validate(
            {"cluster": {"name_servers": ["127.0.0.1:1"]}, "observe": {"listen": f"127.0.0.1:{port}"}}
        )
        app = App(settings, [bill], plugins=PluginHost())
        task = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: task.done() or app.snapshot().phase in {"starting", "running"})
        assert not task.done(), task.exception()
        found = await page(port, "/startup"), await page(port, "/live"), await page(port, "/ready")
        await app.stop(drain=0)
        await task
        return found

    startup, live, ready = run(story)

    assert (200, 200, 503) == (startup.status, live.status, ready.status)
    assert any("no broker has accepted this member's heartbeat yet" in reason for reason in ready.json["reasons"])


def answered(request: dict[str, Any]) -> dict[str, Any]:
    return {"worker": 0, "process": 1, "reasons": [], "phase": "running"}


@pytest.mark.parametrize(
    ("observe", "statuses"),
    [
        ({}, {"": (200, 200)}),
        (
            {"token": "secret"},
            {"": (401, 401), "Bearer secret": (200, 200), "Bearer wrong": (401, 401), "secret": (401, 401)},
        ),
        ({"token": "secret", "public": ["probes"]}, {"": (200, 401), "Bearer secret": (200, 200)}),
        ({"listen": "0.0.0.0", "public": ["probes"]}, {"": (200, 404)}),
        ({"listen": "0.0.0.0", "token": "secret"}, {"": (401, 401), "Bearer secret": (200, 200)}),
    ],
)
def test_who_may_read_what(observe: dict[str, Any], statuses: dict[str, tuple[int, int]]) -> None:
    port = free_port()
    host = observe.get("listen", "127.0.0.1")
    settings = ObserveSettings.model_validate({**observe, "listen": f"{host}:{port}"})
    listener = ObserveListener(settings, answered, RealWatchman())
    listener.open()
    try:
        for given, wanted in statuses.items():
            headers = {"authorization": given} if given else {}

            async def both(headers: dict[str, str] = headers) -> tuple[int, int]:
                live, snapshot = await page(port, "/live", **headers), await page(port, "/snapshot", **headers)
                return live.status, 200 if snapshot.status == 503 else snapshot.status  # it has none to show

            assert wanted == asyncio.run(both()), given
    finally:
        listener.close()


def test_an_open_address_without_a_token_is_refused_at_start() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "[::]", "example.org"):
        with pytest.raises(ValueError, match="other machines reach it"):
            ObserveSettings.model_validate({"listen": f"{host}:9464"})
    for host in ("127.0.0.1", "[::1]", "localhost"):
        assert ObserveSettings.model_validate({"listen": f"{host}:9464"}).is_loopback


@pytest.mark.parametrize("token", ["secret\n", "secret ", " secret", "a\tb", "a\r\nb", "a\x7fb", "a" * 4097])
def test_a_token_that_no_header_carries_is_refused_at_start_and_not_shown(token: str) -> None:
    """As of a file with a line break at its end: nothing would ever open."""
    with pytest.raises(ValueError, match="token: no header can carry it") as raised:
        ObserveSettings.model_validate({"listen": "127.0.0.1:9464", "token": token})

    assert token not in str(raised.value)


@pytest.mark.parametrize("token", ["p\u00e4ss w\u00f6rd \U0001f511", '"quoted\\"', "x" * 4096])
def test_a_token_of_any_signs_opens(token: str) -> None:
    port = free_port()
    settings = ObserveSettings.model_validate({"listen": f"127.0.0.1:{port}", "token": token})
    opened = ObserveListener(settings, answered, RealWatchman())
    opened.open()
    try:
        right, wrong = (
            read(port, "/live", authorization=f"Bearer {given}".encode().decode("latin-1"))
            for given in (token, f"{token}x")
        )
    finally:
        opened.close()

    assert (200, 401) == (right.status, wrong.status)


def test_an_address_of_another_machine_ends_the_start() -> None:
    settings = ObserveSettings.model_validate({"listen": "192.0.2.1:9464", "public": ["probes"]})

    with pytest.raises(ListenerWrong, match=r"^observe.listen '192.0.2.1:9464': no address of this machine$"):
        ObserveListener(settings, answered, RealWatchman()).open()


def test_an_address_that_is_taken_ends_the_start_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    settings = ObserveSettings.model_validate({"listen": f"127.0.0.1:{port}"})
    first = ObserveListener(settings, answered, RealWatchman())
    first.open()
    try:
        second = ObserveListener(settings, answered, RealWatchman())
        text = f"^observe.listen '127.0.0.1:{port}': another process listens there; give each application its own$"
        with pytest.raises(ListenerWrong, match=text):
            second.open()
        monkeypatch.setattr(listener, "END_SECONDS", None)
        second.close()  # at once: it has nothing to wait for
    finally:
        first.close()


def test_one_that_opens_too_late_is_not_told_to_choose_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(RealWatchman):
        """A machine that begins no thread in time."""

        def attend(self, job: Callable[[], object], name: str) -> None:
            pass

    monkeypatch.setattr(listener, "START_SECONDS", 0.01)
    settings = ObserveSettings.model_validate({"listen": "127.0.0.1:9464"})
    with pytest.raises(ListenerWrong, match=r"^observe.listen '127.0.0.1:9464': not open within 0.01 s; is this"):
        ObserveListener(settings, answered, Busy()).open()


def test_without_its_package_the_start_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [
        name
        for name in sys.modules
        if name.startswith(("h11", "framework.net.http.server", "framework.net.http.connection"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h11", None)
    settings = ObserveSettings.model_validate({"listen": f"127.0.0.1:{free_port()}"})

    with pytest.raises(ListenerWrong, match="pip install"):
        ObserveListener(settings, answered, RealWatchman()).open()
