"""Groups that an engine consumes by itself: taken, started, shown and stopped, and what cannot go with that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from framework import Message, consumer
from framework.errors import ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.contracts import Taking
from framework.net.real_world import real_world
from framework.runtime.engine_groups import EngineGroups
from framework.runtime.report.observe import total
from framework.settings.schema import AppSettings
from framework.testing import Harness
from framework.testing.errors import Violation


class Engine:
    """Takes the group `revenue`, and keeps what it was told."""

    def __init__(self) -> None:
        self.took: list[Taking] = []
        self.told: list[str] = []
        self.is_confused = False

    def prepared(self, function: Callable[..., object], name: str, group: str) -> Callable[[list[Message]], object]:
        return function

    def takes(self, group: str) -> bool:
        return group == "revenue"

    def taken(self, taking: Taking) -> Engine:
        self.took.append(taking)
        return self

    def run(self) -> None:
        self.told.append("run")  # in the simulation a thread's work has to end for anything else to go on

    def stop(self, drain_ms: int) -> None:
        self.told.append(f"stop {drain_ms}")

    @property
    def idle_ms(self) -> int:
        return 60_000

    @property
    def picture(self) -> Mapping[str, str]:
        return {"state": "running"}

    @property
    def counts(self) -> Mapping[str, int]:
        if self.is_confused:
            raise RuntimeError("cannot count")
        return {"handled": 200, "retried": 3, "dead_lettered": 1}

    @property
    def lag(self) -> Mapping[str, int]:
        return {"clicks@broker-a:0": 7}

    def figures(self, group: str) -> Mapping[str, float]:
        if self.is_confused:
            raise RuntimeError("cannot count")
        return {"batch_ms": 12.5} if group == "revenue" else {"batch_ms": 3.0, "mean_ms": float("nan")}


class Plugin:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @hookimpl
    def register_runners(self) -> dict[str, Engine]:
        return {"own": self._engine}


def host(engine: Engine) -> PluginHost:
    return PluginHost(objects={"own": Plugin(engine)}, discover=lambda: ())


@consumer("clicks", group="revenue", engine="own", tags="a || b", batch=50, linger="2s")
def revenue(batch: Any) -> None: ...


def test_the_engine_is_told_all_and_runs_as_long_as_the_application() -> None:
    engine = Engine()
    settings = {"consumers": {"revenue": {"max_retries": 3, "start": "first"}}, "app": {"drain": "7s"}}

    with Harness(revenue, settings=settings, plugins=host(engine)) as desk:
        picture = desk.snapshot()
        (shown,) = picture.engines
        assert picture.is_ready
        assert not picture.groups, "no such group is joined"

    assert ("revenue", "clicks", "own", {"state": "running"}) == (shown.group, shown.topic, shown.engine, shown.facts)
    assert ({"batch_ms": 12.5}, {"clicks@broker-a:0": 7}) == (shown.figures, shown.lag)
    (taking,) = engine.took
    assert ("revenue", "clicks", 50, 2000, 3) == (
        taking.group, taking.topic, taking.batch, taking.linger_ms, taking.max_retries,
    )  # fmt: skip
    assert "a" in taking.tags
    assert "first" == taking.start.policy
    assert ["run", "stop 7000"] == engine.told


def test_what_an_engine_says_it_has_done_is_in_the_applications_counts() -> None:
    """The last line of `run` said that nothing was handled."""
    engine = Engine()
    groups = EngineGroups(real_world().workers)
    handlers: list[Any] = [revenue]
    groups.find(AppSettings(), handlers, host(engine))

    counts = total(groups.counts)
    assert (200, 3, 1) == (counts.handled, counts.retried, counts.dead_lettered)
    engine.is_confused = True
    assert 0 == total(groups.counts).handled


def test_what_an_engine_counts_of_a_group_of_ours_is_in_its_picture_or_missing() -> None:
    @consumer("views", group="watching", engine="own", batch=50)
    def watching(batch: Any) -> None: ...

    engine = Engine()
    with Harness(watching, plugins=host(engine)) as desk:
        assert {"batch_ms": 3.0} == desk.snapshot().groups[0].figures, "JSON has no NaN"
        engine.is_confused = True
        assert {} == desk.snapshot().groups[0].figures


def _refused(words: str, *consumers: Any, **group: Any) -> None:
    settings = {"consumers": {"revenue": group}} if group else {}
    with (
        pytest.raises((ConfigurationError, Violation), match=words),
        Harness(consumers, settings=settings, plugins=host(Engine())),
    ):
        pass


def test_what_only_we_do_is_refused() -> None:
    _refused(
        r"consumers.revenue.concurrency: the engine 'own' consumes this group, so only max_retries and",
        revenue,
        concurrency=3,
    )


def test_a_taken_group_has_one_handler() -> None:
    @consumer("views", group="revenue")
    def views(message: Message) -> None: ...

    _refused(r"group 'revenue': the engine 'own' consumes the whole group with one handler", revenue, views)


def test_whatever_an_engine_raises_is_named_at_its_handler_and_hides_no_other() -> None:
    class Broken(Engine):
        def taken(self, taking: Taking) -> Engine:
            raise OSError("no session")

    class Doubtful(Engine):
        def takes(self, group: str) -> bool:
            raise ConfigurationError("options.failOnDataLoss: write true or false")

    for engine, words in (
        (
            Broken(),
            r"test_engine_groups.py:\d+: consumer 'revenue': engine 'own': taken\(\) failed: OSError: no session",
        ),
        (Doubtful(), r"test_engine_groups.py:\d+: consumer 'revenue': options.failOnDataLoss: write true or false"),
    ):
        with (
            pytest.raises((ConfigurationError, Violation), match=words),
            Harness(revenue, plugins=host(engine)),
        ):
            pass
