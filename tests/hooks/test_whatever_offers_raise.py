"""What plugins and applications offer may raise whatever it likes: each offer against every exception."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from framework import App, Message, consumer, publishes, resource
from framework.errors import BodyUndecodable, ConfigurationError, FrameworkError
from framework.hooks import BoxRequest, hookimpl
from framework.hooks.contained import SENT_BACK
from framework.hooks.host import PluginHost
from framework.hooks.validated import choose
from framework.model.allocation import Allocation
from framework.model.box import BoxFailed
from framework.model.delivery import Delivery
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.net.task_tree import TaskTree
from framework.runtime.engine_groups import EngineFigures, EngineGroups
from framework.runtime.group.progressing import AskedStore
from framework.runtime.plans.codecs import with_codec
from framework.runtime.plans.collect import gather
from framework.runtime.plans.stores import opened_store
from framework.services.call.once import Once
from framework.services.orderly.desk import contained
from framework.settings.schema import AppSettings
from framework.testing import Harness
from tests.hooks.raised import RAISED, whatever
from tests.patience import until
from tests.services.parts import QUEUE, LoopClock, play

DELIVERY = Delivery("billing", Message("orders", b"x", message_id="A1", queue=QUEUE), 0.0)
Raises = Callable[..., Any]


class Offers:
    """What it is made with, by the hook's name."""

    def __init__(self, **offers: Any) -> None:
        self._offers = offers

    @hookimpl
    def register_allocation_strategies(self) -> Any:
        return self._offers.get("strategies", [])

    @hookimpl
    def register_expiry_policies(self) -> Any:
        return self._offers.get("policies", [])

    @hookimpl
    def register_broker_handlers(self) -> Any:
        return self._offers.get("handlers", {})

    @hookimpl
    def register_codecs(self) -> Any:
        return self._offers.get("codecs", {})

    @hookimpl
    def register_runners(self) -> Any:
        return self._offers.get("runners", {})


def host_of(**offers: Any) -> PluginHost:
    return PluginHost(objects={"acme": Offers(**offers)}, discover=list)


def late(raises: Raises) -> Callable[..., Iterator[Any]]:
    """Answers, and raises when its answer is looked at."""

    def answers(*_: object) -> Iterator[Any]:
        yield from ()
        raises()

    return answers


@whatever
@pytest.mark.parametrize("is_late", [False, True])
def test_a_strategy(*, is_late: bool, raises: Raises) -> None:
    """Who asked is told by an Exception, and leaves the queues as they are."""
    asked = late(raises) if is_late else raises
    strategy = SimpleNamespace(name="acme", allocate=asked, remarks=asked)
    host = host_of(strategies=[strategy])
    chosen: Any = choose(Allocation("acme", {}), host.strategies, ("allocation",), AppSettings(), host.contained)

    with pytest.raises(Exception):  # noqa: B017 - whichever it is, no other is let through
        chosen.allocate("a", ["a"], [QUEUE])
    with pytest.raises(Exception):  # noqa: B017 - likewise
        chosen.remarks(["a"], [QUEUE])
    assert {"acme": 2} == host.calls.failures


@whatever
@pytest.mark.parametrize("at", ["options", "configured", "validator"])
def test_a_strategy_s_options(at: str, raises: Raises) -> None:
    class Options(BaseModel):
        @model_validator(mode="after")
        def _checked(self) -> Options:
            if at == "validator":
                raises()
            return self

    class Striped:
        name = "acme"

        @property
        def options(self) -> Any:
            return raises() if at == "options" and Striped.is_known else Options

        def configured(self, *_: object) -> Any:
            return raises() if at == "configured" else self

        def allocate(self, *_: object) -> list[MessageQueue]:
            return []

        is_known = False

    host = host_of(strategies=[Striped()])
    Striped.is_known = True

    with pytest.raises(ConfigurationError, match="acme"):
        choose(Allocation("acme", {}), host.strategies, ("allocation",), AppSettings(), host.contained)


@whatever
def test_an_expiry_policy(raises: Raises) -> None:
    host = host_of(policies=[SimpleNamespace(name="acme", decide=raises)])

    assert SENT_BACK == host.expiry_policies["acme"].decide(DELIVERY, 17)
    assert {"acme": 1} == host.calls.failures


@whatever
def test_a_handler_of_the_box(raises: Raises) -> None:
    host = host_of(handlers={77_001: raises})

    answer = host.broker_handlers[77_001](BoxRequest(77_001, {}, b"", "a:1", "broker-a"))
    assert isinstance(answer, BoxFailed)
    assert {"acme": 1} == host.calls.failures


@whatever
def test_what_an_offer_is_called(raises: Raises) -> None:
    """`name` may be a property."""

    class Nameless:
        name = property(raises)

        def allocate(self, *_: object) -> list[MessageQueue]:
            return []

    with pytest.raises(ConfigurationError, match="'acme'"):
        host_of(strategies=[Nameless()])


@whatever
def test_a_store_of_progress(raises: Raises) -> None:
    async def fails(*_: object) -> Any:
        raises()

    async def story() -> None:
        for ask in (raises, fails):  # which is no coroutine function, or is one
            store: Any = SimpleNamespace(read=ask, take=ask, write=ask)
            asked = AskedStore("billing", "acme", store, LoopClock())
            with pytest.raises(FrameworkError, match="acme"):
                await asked.read(QUEUE)
            with pytest.raises(FrameworkError, match="acme"):
                await asked.take(QUEUE, b"")
            with pytest.raises(FrameworkError, match="acme"):
                await asked.write(QUEUE, 1, b"")

    if raises is not RAISED["StopIteration"]:  # which is a RuntimeError where it leaves a coroutine
        play(story)


@whatever
def test_a_store_of_repeats_and_the_function_that_names_the_key(raises: Raises) -> None:
    async def fails(*_: object) -> Any:
        raises()

    async def handle(message: Message, delivery: Delivery) -> None: ...

    async def story() -> None:
        for ask in (raises, fails):
            store: Any = SimpleNamespace(has=ask, record=ask, close=ask)
            once = Once("billing", "orders", "acme", store, LoopClock())
            assert await once.around(DELIVERY, handle, None, 1_000) is None
            assert 2 == once.failures
            assert await once.around(DELIVERY, handle, raises, 1_000) is None
            assert 3 == once.failures
            await once.close()

    play(story)


@whatever
def test_a_store_that_is_opened(raises: Raises) -> None:
    with pytest.raises(ConfigurationError, match=r"consumers\.billing\.progress: the store 'acme' cannot be opened"):
        opened_store("acme", raises, "consumers.billing.progress")


@whatever
@pytest.mark.parametrize("is_early", [False, True])
def test_a_codec(*, is_early: bool, raises: Raises) -> None:
    codec = SimpleNamespace(
        decoder=raises if is_early else lambda *_: raises, encoder=raises if is_early else lambda *_: raises
    )

    @consumer("orders", "billing", codec="acme")
    async def reads(numbers: tuple[int, ...]) -> None: ...

    @consumer("orders", "billing")
    @publishes("sums", codec="acme")
    async def writes(message: Message) -> object: ...

    host = host_of(codecs={"acme": codec})
    if is_early:
        for each in (reads, writes):
            with pytest.raises(ConfigurationError, match="codec 'acme'"):
                with_codec(each.spec, host.codecs)
        return
    decode = with_codec(reads.spec, host.codecs).arguments[0].decode
    encode = with_codec(writes.spec, host.codecs).encode
    assert decode is not None
    assert encode is not None
    with pytest.raises(BodyUndecodable):
        decode(b"body")
    with pytest.raises(TypeError, match="codec 'acme'"):
        encode(17)


@consumer("clicks", group="revenue", engine="acme")
def takes_all(batch: Any) -> None: ...


revenue: Any = takes_all


@whatever
@pytest.mark.parametrize("method", ["takes", "taken"])
def test_an_engine_that_is_put_together(method: str, raises: Raises) -> None:
    runner: Any = SimpleNamespace(prepared=raises, takes=lambda _: True, taken=lambda _: None)
    setattr(runner, method, raises)
    host = host_of(runners={"acme": runner})

    with pytest.raises(ConfigurationError, match=rf"engine 'acme': {method}\(\) failed"):
        EngineGroups(real_world().workers).find(AppSettings(), [revenue], host)


@whatever
def test_an_engine_that_runs_stops_and_counts(raises: Raises) -> None:
    class Taken:
        stop = raises
        idle_ms = property(raises)
        counts = property(raises)
        picture = property(raises)
        lag = property(raises)

        def run(self) -> None: ...

    runner: Any = SimpleNamespace(prepared=raises, takes=lambda _: True, taken=lambda _: Taken(), figures=raises)

    with Harness(revenue, plugins=host_of(runners={"acme": runner})) as desk:
        desk.sleep("5s")
        for _ in range(5):
            (engine,) = desk.snapshot().engines
    assert ("revenue", {}, {}, {}) == (engine.group, engine.facts, engine.figures, engine.lag)
    assert {"handled": 0, "retried": 0, "dead_lettered": 0} == engine.counts
    assert 2 >= len([line for line in desk.logs if line["event"].startswith("engine ")]), "once, and not each time"
    assert {} == EngineFigures({"acme": runner}).of("revenue")


@whatever
def test_an_engine_that_ends_is_named_with_what_it_raised(raises: Raises) -> None:
    runner: Any = SimpleNamespace(
        prepared=raises, takes=lambda _: True, taken=lambda _: SimpleNamespace(run=raises, stop=raises, counts={})
    )

    async def story() -> list[str]:
        groups, tree = EngineGroups(real_world().workers), TaskTree()
        groups.find(AppSettings(), [revenue], host_of(runners={"acme": runner}))
        groups.start(tree)
        await until(lambda: bool(list(groups.failed)))
        await tree.close()
        return list(groups.failed)

    (reason,) = asyncio.run(story())
    assert reason.startswith("group revenue: its engine acme has ended: ")


@whatever
def test_the_key_of_an_orderly_message(raises: Raises) -> None:
    assert "" == contained(raises, "billing")(DELIVERY.message)


@consumer("orders", "billing")
async def bill(message: Message) -> None: ...


@whatever
def test_work_beside_the_groups(raises: Raises) -> None:
    class Works:
        @hookimpl
        def app_started(self, app: App) -> None:
            app.accompany(self._work(), name="acme's work")

        async def _work(self) -> None:
            await asyncio.sleep(1)
            raises()

    with Harness(bill, plugins=PluginHost(objects={"acme": Works()}, discover=list)) as desk:
        desk.sleep("5s")
        desk.send("orders", "one")
        assert ["handled"] == [event["event"] for event in desk.settle()]
    assert [("plugin task failed", "acme's work")] == [
        (line["event"], line["task"]) for line in desk.logs if line["level"] == "error"
    ]


@whatever
@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_that_says_when_a_group_is_ready(*, is_async: bool, raises: Raises) -> None:
    asked: list[int] = []

    def ready() -> bool:
        asked.append(1)
        return len(asked) > 2 or bool(raises())

    async def ready_later() -> bool:
        return ready()

    @consumer("orders", "billing", ready_when=ready_later if is_async else ready)
    async def waits(message: Message) -> None: ...

    with Harness(waits) as desk:
        desk.send("orders", "one")
        assert ["handled"] == [event["event"] for event in desk.settle()]
    assert 3 == len(asked)


@whatever
@pytest.mark.parametrize("is_async", [False, True])
def test_a_resource_of_the_application_that_is_opened(*, is_async: bool, raises: Raises) -> None:
    def pool() -> str:
        return str(raises())

    async def pool_later() -> str:
        return pool()

    opened: Any = resource(pool_later if is_async else pool)

    async def uses(message: Message, pool: str) -> None: ...

    uses.__annotations__ = {"message": Message, "pool": str}
    from framework.services.call.resources import Resources

    async def story() -> None:
        with pytest.raises(ConfigurationError, match="could not be opened"):
            await Resources([opened]).open()

    play(story)


@whatever
def test_a_resource_that_is_closed_and_one_of_a_message(raises: Raises) -> None:
    from framework.services.call.resources import Resources, Scope

    def plain() -> Iterator[str]:
        yield "pool"
        raises()

    async def awaited() -> Any:
        yield "pool"
        raises()

    async def call(_: object) -> None: ...

    async def story() -> None:
        for function in (plain, awaited):
            resources = Resources([resource(function)])
            await resources.open()
            await resources.close(1_000)
            scope = Scope([resource(scope="message")(function)], {})
            with pytest.raises(Exception):  # noqa: B017 - whichever it is, no other is let through
                await scope.around(call, {})
        with pytest.raises(Exception):  # noqa: B017 - likewise
            Scope([resource(scope="message")(plain)], {}).around_at_once(lambda _: None, {})

    play(story)


@whatever
def test_what_a_plugin_s_settings_are_checked_with(raises: Raises) -> None:
    class Depth(BaseModel):
        depth: int = 1

        @model_validator(mode="after")
        def _checked(self) -> Depth:
            if self.depth > 1:
                raises()
            return self

    class Deep:
        def __init__(self, settings: Depth) -> None: ...

        @staticmethod
        @hookimpl
        def register_settings() -> type[Depth]:
            return Depth

    def of(depth: int) -> AppSettings:
        return AppSettings.model_validate({"plugins": {"settings": {"deep": {"depth": depth}}}})

    deep, settings = of(2), of(1)
    (mistake,) = PluginHost(deep.plugins, deep, objects={"deep": Deep}, discover=list, tolerant=True).mistakes
    assert "deep" in str(mistake)
    running = PluginHost(settings.plugins, settings, objects={"deep": Deep}, discover=list)
    (mistake,) = running.mistakes_in(deep.plugins, deep)
    assert "deep" in str(mistake)


@whatever
@pytest.mark.parametrize("at", ["import", "constructor"])
def test_a_plugin_that_is_loaded(at: str, raises: Raises) -> None:
    class Leaves:
        def __init__(self) -> None:
            raises()

        @hookimpl
        def app_started(self) -> None: ...

    def load() -> type:
        return Leaves if at == "constructor" else raises()

    entry: Any = SimpleNamespace(name="acme", value="acme:Leaves", dist=None, load=load)

    (mistake,) = PluginHost(discover=lambda: [entry], tolerant=True).mistakes
    assert "plugin 'acme' (acme:Leaves) cannot be loaded" in str(mistake)


@pytest.mark.parametrize("line", ["import sys; sys.exit(0)", "raise BaseException('oh')", "raise KeyboardInterrupt"])
def test_a_module_of_handlers_that_is_imported(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from framework.errors import Findings

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaves_at_once.py").write_text(line)
    findings = Findings()
    gather(AppSettings(), "leaves_at_once", findings)

    assert "importing leaves_at_once" in str(findings.mistakes[0])
    sys.modules.pop("leaves_at_once", None)
