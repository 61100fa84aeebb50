"""What plugins offer by name, and in which order their hooks are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.errors import ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from tests.hooks.test_host import STRATEGIES, Broken, Offers, Strategy, entry, host, mistakes_of


def test_strategies_of_plugins_join_the_built_in_ones() -> None:
    assert {*STRATEGIES, "mine"} == set(host(objects={"mine": Offers(Strategy("mine"))}).strategies)


class Runs:
    """Offers the engines that it is given, by name."""

    def __init__(self, **engines: object) -> None:
        self.engines = engines

    @hookimpl
    def register_runners(self) -> dict[str, Any]:
        return self.engines

    def prepared(self, function: Callable[..., object], name: str, group: str) -> Callable[..., object]:
        return function


def test_what_register_runners_offers_is_known_by_its_name() -> None:
    runner = Runs()

    assert {"spark": runner} == host(objects={"mine": Runs(spark=runner)}).runners
    assert {} == host().runners


@pytest.mark.parametrize(
    ("plugins", "reason"),
    [
        ({"a": Runs(spark=Runs()), "b": Runs(spark=Runs())}, "both offer the engine 'spark'"),
        ({"a": Runs(spark="a text")}, "plugin 'a': 'a text' has no prepared()"),
        ({"a": Runs(**{"": None})}, "has no prepared()"),
    ],
)
def test_an_engine_that_cannot_be_registered_stops_the_start(plugins: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        host(objects=plugins)

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (Offers(Strategy("circle")), "both offer the strategy 'circle'"),
        (Offers("a text"), "has no name or no allocate()"),
        (Offers(), "register_allocation_strategies failed: ZeroDivisionError: oh"),
    ],
)
def test_a_strategy_that_cannot_be_registered_stops_the_start(plugin: object, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="plugin") as caught:
        host(objects={"mine": plugin})

    assert reason in str(caught.value)


class Store:
    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, means: object) -> object:
        return means


class Stores(Offers):
    register_allocation_strategies = None  # type: ignore[assignment]  # it offers none

    @hookimpl
    def register_progress_stores(self) -> list[Any]:
        return list(self.offered)


class DedupStores:
    @hookimpl
    def register_dedup_stores(self) -> list[Any]:
        return [Store("mine")]


def test_register_dedup_stores_offers_them_by_name() -> None:
    assert ["memory", "mine", "sqlite"] == list(host(objects={"mine": DedupStores()}).dedup_stores)
    with pytest.raises(ConfigurationError, match="both offer the dedup store 'mine'"):
        host(objects={"mine": DedupStores(), "other": DedupStores()})


def test_register_progress_stores_offers_them_by_name() -> None:
    assert ["broker", "local", "mine", "topic"] == list(host(objects={"mine": Stores(Store("mine"))}).progress_stores)
    with pytest.raises(ConfigurationError, match="both offer the progress store 'topic'"):
        host(objects={"mine": Stores(Store("topic"))})
    with pytest.raises(ConfigurationError, match=r"has no name or no open\(\)"):
        host(objects={"mine": Stores("a text")})


class Shouts:
    """Shout what is said."""

    def add_options(self, parser: Any) -> None:
        parser.add_argument("--loud", action="store_true")

    def execute(self, arguments: Any, settings: Any) -> int:
        return 0


class Commands:
    def __init__(self, **commands: object) -> None:
        self.commands = commands

    @hookimpl
    def register_commands(self) -> dict[str, Any]:
        return self.commands


def test_register_commands_offers_them_by_name() -> None:
    shout = Shouts()
    assert {"shout": ("loud", shout)} == host(objects={"loud": Commands(shout=shout)}).commands

    assert ["plugins 'b' and 'a' both offer the command 'shout'"] == mistakes_of(
        objects={"a": Commands(shout=shout), "b": Commands(shout=shout)}
    )
    (mistake,) = mistakes_of(objects={"quiet": Commands(whisper=len)})
    assert "plugin 'quiet': <built-in function len> has no add_options() or execute()" == mistake


def test_a_tolerant_host_leaves_out_what_is_wrong_and_names_all_of_it() -> None:
    made = PluginHost(
        objects={"bad": Offers(), "fine": Commands(shout=Shouts())}, discover=lambda: [entry("broken", Broken)],
        tolerant=True,
    )  # fmt: skip

    first, second = [str(each) for each in made.mistakes]
    assert first.startswith("plugin 'broken' (")
    assert "cannot be loaded: OSError: no disk" in first
    assert "plugin 'bad': register_allocation_strategies failed: ZeroDivisionError: oh" == second
    assert ["shout"] == list(made.commands)
    assert "sticky" in made.strategies


class First:
    @hookimpl(tryfirst=True)
    def before_consume(self) -> None:
        return


class Last:
    @hookimpl(trylast=True)
    def before_consume(self) -> None:
        return


class Between:
    @hookimpl
    def before_consume(self) -> None:
        return

    @hookimpl
    def after_consume(self) -> None:
        return


def test_the_order_in_which_each_hook_is_called_is_told() -> None:
    host = PluginHost(objects={"last": Last(), "between": Between(), "first": First()}, discover=list)

    assert ("first", "between", "last") == host.order["before_consume"]
    assert ("between",) == host.order["after_consume"]
    assert () == host.order["app_started"]
