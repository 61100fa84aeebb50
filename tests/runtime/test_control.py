"""What a running application says at its control socket, also while its event loop cannot."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from framework import App, Delivery, Message, consumer
from framework.broker.server import Broker
from framework.errors import BrokerUnreachable
from framework.hooks.host import PluginHost
from framework.mistakes import ArgumentWrong
from framework.net.control.asking import Answer, ask
from framework.runtime import control
from framework.runtime.report.running_info import running_info
from framework.settings.schema import AppSettings
from tests.patience import PATIENCE_S, until
from tests.runtime.test_app import box, run, send


@asynccontextmanager
async def controlled(path: Path, broker: Broker, *handlers: Any, **group: Any) -> AsyncIterator[App]:
    """The application while it runs, asked at this path."""
    settings = AppSettings.model_validate(
        {
            "app": {"name": "shop", "control": str(path)},
            "cluster": {"name_servers": [broker.address]},
            "consumers": {handler.spec.group: {"start": "first", **group} for handler in handlers},
        }
    )
    app = App(settings, handlers, plugins=PluginHost())
    task = asyncio.get_running_loop().create_task(app.run())
    try:
        await until(lambda: task.done() or path.is_socket())
        yield app
    finally:
        await app.stop(drain="1m")
        await task


async def asked(path: Path, what: str, **more: object) -> Answer:
    return await asyncio.to_thread(ask, path, {"ask": what, **more}, PATIENCE_S)


class Desk:
    """Handlers that stay until they may go."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.at_work = 0

    async def wait(self) -> None:
        self.at_work += 1
        while not self.may_go.is_set():  # noqa: ASYNC110 - a thread's event
            await asyncio.sleep(0.005)

    def block(self) -> None:
        self.at_work += 1
        assert self.may_go.wait(PATIENCE_S)


def async_one(desk: Desk, **options: Any) -> Any:
    @consumer("orders", "billing", **options)
    async def bill(message: Message) -> None:
        await desk.wait()

    return bill


def plain_one(desk: Desk, **options: Any) -> Any:
    @consumer("orders", "billing", **options)
    def bill(message: Message) -> None:
        desk.block()

    return bill


def async_batch(desk: Desk, **options: Any) -> Any:
    @consumer("orders", "billing", batch=2, **options)
    async def bill(messages: list[Message]) -> None:
        await desk.wait()

    return bill


def plain_batch(desk: Desk, **options: Any) -> Any:
    @consumer("orders", "billing", batch=2, **options)
    def bill(messages: list[Message]) -> None:
        desk.block()

    return bill


@pytest.mark.parametrize(("what", "fate"), [("send_back", "retried"), ("bury", "dead_lettered")])
@pytest.mark.parametrize("make", [async_one, plain_one, async_batch, plain_batch])
def test_an_operator_ends_a_handler_that_runs_and_says_what_becomes_of_its_message(
    tmp_path: Path, make: Callable[..., Any], what: str, fate: str
) -> None:
    async def scenario() -> None:
        desk, path = Desk(), tmp_path / "control"
        async with box() as broker:
            await send(broker, "orders", "a")
            async with controlled(path, broker, make(desk)) as app:
                await until(lambda: desk.at_work)
                (handler,) = (await asked(path, "stacks"))["handlers"]
                place = {name: handler[name] for name in ("group", "topic", "broker", "queue", "offset")}
                request = {"ask": "decide", "what": what, **place}
                assert what == (await asyncio.to_thread(ask, path, request, PATIENCE_S))["decided"]
                await until(lambda: getattr(app.counts, fate))
                desk.may_go.set()
                again = await asyncio.to_thread(ask, path, {**request, "offset": 99}, PATIENCE_S)
                assert "no handler runs with this message any more" == again["error"]

    run(scenario)


@pytest.mark.parametrize(("orderly", "said"), [(False, ""), (True, "the group works in order")])
def test_an_operator_gives_a_handler_more_time_where_something_limits_it(
    tmp_path: Path, orderly: bool, said: str
) -> None:
    async def scenario() -> None:
        desk, path = Desk(), tmp_path / "control"
        async with box() as broker:
            await send(broker, "orders", "a")
            async with controlled(path, broker, async_one(desk, orderly=orderly)) as app:
                await until(lambda: desk.at_work)
                (handler,) = (await asked(path, "stacks"))["handlers"]
                place = {name: handler[name] for name in ("group", "topic", "broker", "queue", "offset")}
                request = {"ask": "decide", "what": "extend", "by": "1h", **place}
                answer = await asyncio.to_thread(ask, path, request, PATIENCE_S)
                assert (said in answer["error"]) if said else ("extend" == answer["decided"])
                wrong = await asyncio.to_thread(ask, path, {**request, "by": "soon"}, PATIENCE_S)
                assert "extend by 'soon'" in wrong["error"]
                desk.may_go.set()
                await until(lambda: app.counts.handled == 1)

    run(scenario)


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("make", [async_one, plain_one, async_batch, plain_batch])
def test_every_handler_that_runs_is_shown_with_its_message_its_age_and_where_it_is(
    tmp_path: Path, make: Callable[..., Any], orderly: bool
) -> None:
    async def scenario() -> None:
        desk, path = Desk(), tmp_path / "control"
        async with box() as broker:
            await send(broker, "orders", "a")
            async with controlled(path, broker, make(desk, orderly=orderly)) as app:
                await until(lambda: desk.at_work)
                found = await asked(path, "stacks")
                desk.may_go.set()
                await until(lambda: app.counts.handled == 1)
                assert [] == (await asked(path, "stacks"))["handlers"], "what has ended is not shown"

        assert found["blocked"] is None
        (handler,) = found["handlers"]
        assert ("billing", "orders", ["key-a"], 1, 1, False) == tuple(
            handler[name] for name in ("group", "topic", "keys", "attempt", "messages", "is_given_up")
        )
        assert ("thread" if "plain" in make.__name__ else "task") == handler["in"]
        assert handler["age_ms"] >= 0
        assert any("bill(runtime/test_control.py:" in frame for frame in handler["stack"]), handler["stack"]

    run(scenario)


def test_the_picture_has_what_top_and_probes_need(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk, path = Desk(), tmp_path / "control"
        async with box() as broker:
            await send(broker, "orders", *"abcdef")
            async with controlled(path, broker, async_one(desk), concurrency=2) as app:
                await until(lambda: desk.at_work == 2 and app.snapshot().groups[0].lag == 6)
                found = (await asked(path, "snapshot"))["snapshot"]
                desk.may_go.set()
                await until(lambda: app.idle_ms() > 0)
                after = json.loads(json.dumps((await asked(path, "snapshot"))["snapshot"]))

        assert ("running", True, [], []) == tuple(
            found[name] for name in ("phase", "is_ready", "not_ready", "not_live")
        )
        assert found["up_ms"] > 0
        (group,) = found["groups"]
        assert ("billing", 2, 2, False, 6) == tuple(
            group[name] for name in ("own_name", "concurrency", "running", "is_paused", "lag")
        )
        assert group["oldest_ms"] >= 0
        assert group["behind_ms"] >= group["oldest_ms"]
        (group,) = after["groups"]
        assert (0, 0, None, 6) == tuple(group[name] for name in ("lag", "running", "oldest_ms", "handled"))
        assert after["up_ms"] > found["up_ms"], "rates are differences of counts by this"

    run(scenario)


def test_what_is_not_known_is_null_and_never_zero(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with box() as broker:
            await send(broker, "orders", "a")
            desk = Desk()
            async with controlled(tmp_path / "control", broker, async_one(desk)) as app:
                await until(lambda: desk.at_work and app.is_ready)
                pulls = list(app._groups[0].owned.values())
                for pull in pulls:
                    pull.flow.max_offset = -1  # nobody has said yet where the queue ends
                (group,) = app.snapshot().groups
                assert (None, True) == (group.lag, group.is_lag_least)
                pulls[0].flow.max_offset = 0
                (group,) = app.snapshot().groups
                assert (0, True) == (group.lag, group.is_lag_least), "of one queue it is known: at least that"
                desk.may_go.set()

    run(scenario)


def test_groups_are_paused_resumed_and_resized(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk, path = Desk(), tmp_path / "control"
        desk.may_go.set()
        async with box() as broker, controlled(path, broker, async_one(desk)) as app:
            await until(lambda: app.is_ready)
            paused = await asked(path, "pause", group="billing")
            await send(broker, "orders", "a")
            (group,) = app.snapshot().groups
            assert (True, 0) == (group.is_paused, desk.at_work)
            assert app.is_ready, "paused is no reason: a rollout would hang"
            resized = await asked(path, "resize", group="billing", to=3)
            assert 3 == app.snapshot().groups[0].concurrency
            resumed = await asked(path, "resume", group="billing")
            await until(lambda: desk.at_work == 1)

        fields = ("group", "paused_before", "paused", "concurrency_before", "concurrency")
        assert ("billing", False, True, 20, 20) == tuple(paused[name] for name in fields)
        assert ("billing", True, True, 20, 3) == tuple(resized[name] for name in fields)
        assert ("billing", True, False, 3, 3) == tuple(resumed[name] for name in fields)

    run(scenario)


def test_a_pause_with_an_end_is_shown_with_its_author_and_ends_by_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk, path = Desk(), tmp_path / "control"
        desk.may_go.set()
        async with box() as broker, controlled(path, broker, async_one(desk)) as app:
            await until(lambda: app.is_ready)
            before_ms = app.world.clock.now_ms()
            told = await asked(path, "pause", group="billing", length="1h", by="ana@desk", reason="bank is down")
            after_ms = app.world.clock.now_ms()
            health = await asked(path, "health", ready=True)
            await asked(path, "pause", group="billing", length="200ms")
            await send(broker, "orders", "a")
            await until(lambda: desk.at_work == 1)  # nobody resumed it
            (group,) = app.snapshot().groups

        pause = told["pause"]
        assert ("ana@desk", "bank is down", 3_600_000) == (
            pause["by"], pause["reason"], pause["until_ms"] - pause["at_ms"]
        )  # fmt: skip
        assert before_ms <= pause["at_ms"] <= after_ms
        assert ([], [{"group": "billing", "pause": pause}]) == (health["reasons"], health["paused"])
        assert (False, None) == (group.is_paused, group.pause)

    run(scenario)


def test_a_later_pause_and_a_resume_take_the_place_of_an_earlier_end(tmp_path: Path) -> None:
    """Who pauses for a minute and then for good must not find the group running after that minute."""

    async def scenario() -> None:
        desk, path = Desk(), tmp_path / "control"
        async with box() as broker, controlled(path, broker, async_one(desk)) as app:
            await until(lambda: app.is_ready)
            pauses = app._membership.pauses
            app.pause("billing", length="1h")
            assert 1 == len(pauses._timers)
            app.pause("billing", reason="for good")
            pause = app.snapshot().groups[0].pause
            assert pause is not None
            assert (0, "for good", None) == (len(pauses._timers), pause.reason, pause.until_ms)
            app.pause("billing", length=3600)
            app.resume("billing")
            assert (0, None) == (len(pauses._timers), app.snapshot().groups[0].pause)
            app.pause("billing", length="1h")
            edited = app.settings.consumers["billing"].model_copy(update={"paused": True})
            app.adopt(app.settings.model_copy(update={"consumers": {"billing": edited}}))
            assert (0, True) == (len(pauses._timers), app.snapshot().groups[0].is_paused), "the settings say so now"
            for length, said in (("soon", "is not a duration"), (0, "0 is no time"), ("400d", "outside 0 to 366d")):
                with pytest.raises(ArgumentWrong, match=rf"pause\('billing'\): length: .*{said}"):
                    app.pause("billing", length=length)
            app.pause("billing", length="1h", by="ana@desk", reason="bank is down")
            info = running_info(app.snapshot(), "billing")
            app.resume("billing")

        text = info.properties["group.paused"]
        assert text.startswith("by ana@desk at 20")
        assert text.endswith("Z: bank is down")

    run(scenario)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"ask": "pause", "group": "billing", "length": 5}, "write 'length': '10m'"),
        ({"ask": "pause", "group": "billing", "reason": ["x"]}, "'reason': TEXT, or leave them out"),
        ({"ask": "pause", "group": "biling"}, "no group 'biling' runs here; did you mean 'billing'?"),
        ({"ask": "pause"}, "write {'ask': 'pause', 'group': GROUP}"),
        ({"ask": "pause", "group": ["billing"]}, "write {'ask': 'pause', 'group': GROUP}"),
        ({"ask": "resize", "group": "billing", "to": "3"}, "and 'to': N to resize"),
        ({"ask": "resize", "group": "billing", "to": True}, "and 'to': N to resize"),
        ({"ask": "resize", "group": "billing"}, "write a number from 1 to 1024"),
        ({"ask": "explode"}, "nothing is known of 'explode'; ask for one of: about, snapshot"),
        ({"ask": {"x": 1}}, "ask for one of: about"),
        ({}, "nothing is known of None"),
    ],
)
def test_what_cannot_be_done_changes_nothing_and_says_why(
    tmp_path: Path, request_: dict[str, object], said: str
) -> None:
    async def scenario() -> None:
        path = tmp_path / "control"
        async with box() as broker, controlled(path, broker, async_one(Desk())) as app:
            await until(lambda: app.is_ready)
            before = app._groups[0].plan
            answer = await asyncio.to_thread(ask, path, request_, PATIENCE_S)
            assert said in answer["error"]
            assert before is app._groups[0].plan

    run(scenario)


def test_health_says_why_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "control"
        async with box() as broker, controlled(path, broker, async_one(Desk())) as app:
            await until(lambda: app.is_ready)
            assert ([], "running") == _said(await asked(path, "health", ready=True))
            app._membership.accepted.clear()
            reasons, _ = _said(await asked(path, "health", ready=True))
            assert ["no broker has accepted this member's heartbeat yet"] == reasons
            assert ([], "running") == _said(await asked(path, "health")), "a restart would not bring brokers back"
            app._membership.accepted.set()

    run(scenario)


def _said(answer: Answer) -> tuple[list[str], str]:
    return answer["reasons"], answer["phase"]


def test_it_answers_while_no_broker_is_there_yet(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "control"
        settings = AppSettings.model_validate(
            {"app": {"control": str(path)}, "cluster": {"name_servers": ["127.0.0.1:9"], "wait_broker": "1h"}}
        )
        app = App(settings, [async_one(Desk())], plugins=PluginHost())
        task = asyncio.get_running_loop().create_task(app.run())
        await until(path.is_socket)
        reasons, phase = _said(await asked(path, "health", ready=True))
        assert "starting" == phase
        assert any(each.startswith("no broker has accepted this member's heartbeat yet") for each in reasons)
        assert ([], "starting") == _said(await asked(path, "health"))
        task.cancel()
        with pytest.raises((asyncio.CancelledError, BrokerUnreachable)):
            await task
        assert not path.exists()

    run(scenario)


def test_while_the_loop_is_blocked_it_is_said_where_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ANSWER_SECONDS", 0.2)
    answers: dict[str, Answer] = {}

    async def scenario() -> None:
        path = tmp_path / "control"

        def look() -> None:
            for what in ("health", "stacks", "pause", "snapshot"):
                answers[what] = ask(path, {"ask": what, "group": "billing"}, PATIENCE_S)

        @consumer("orders", "billing")
        async def bill(delivery: Delivery) -> None:
            looking = threading.Thread(target=look)
            looking.start()
            looking.join()  # which is what blocks the loop

        async with box() as broker:
            await send(broker, "orders", "a")
            async with controlled(path, broker, bill) as app:
                await until(lambda: app.counts.handled)
                assert not app.snapshot().groups[0].is_paused, "what was not answered in time is not done later"

    run(scenario)
    (reason,) = answers["health"]["reasons"]
    assert re.match(r"the event loop has not answered for \d+ s: blocked at ", reason)
    assert "threading.py" in reason
    assert [True, True] == [answers[what]["is_blocked"] for what in ("pause", "snapshot")]
    assert answers["pause"]["error"].startswith("the event loop has not answered")
    (handler,) = answers["stacks"]["handlers"]
    assert any(".bill(runtime/test_control.py:" in frame for frame in handler["stack"])
    assert "thread control request" in answers["stacks"]["threads"]


def test_without_a_path_an_app_listens_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` is for the command: a program that embeds an App has asked for no socket."""
    monkeypatch.setattr(control, "ControlSocket", None)

    async def scenario() -> None:
        for said in ("auto", ""):
            settings = AppSettings.model_validate({"app": {"control": said}})
            app = App(settings, [], plugins=PluginHost())
            app._control.start()
            app._control.stop()

    run(scenario)


def test_giving_up_says_which_topic_is_missing_and_how_to_make_it() -> None:
    async def scenario() -> None:
        async with box() as broker:
            broker.nodes[0].switches.put("autoCreateTopicEnable", "false")
            cluster = {"name_servers": [broker.address], "wait_broker": "100ms"}
            app = App(AppSettings.model_validate({"cluster": cluster}), [async_one(Desk())], plugins=PluginHost())
            with pytest.raises(BrokerUnreachable) as raised:
                await app.run()
        assert f"within 100ms (name servers {broker.address}); no name server knows topic orders, and" in str(
            raised.value
        )
        assert f"; mqadmin updateTopic -n {broker.address} -c DefaultCluster -t orders, " in str(raised.value)

    run(scenario)
