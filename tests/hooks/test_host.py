"""PluginHost: which plugins are loaded, and what stops a start."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from framework.errors import ConfigurationMistakes
from framework.hooks import hookimpl
from framework.hooks.host import GROUP, PluginHost
from framework.settings.schema import AppSettings
from framework.settings.units import Duration

STRATEGIES = ["averaging", "by_config", "circle", "consistent_hash", "machine_room", "nearby", "sticky"]
POLICIES = ["dead_letter", "drop", "extend", "send_back"]
BUILT_IN = [
    *STRATEGIES,
    "codec_json",
    "once_memory",
    "once_sqlite",
    *POLICIES,
    "progress_broker",
    "progress_local",
    "progress_topic",
]


class Depth(BaseModel):
    depth: int = 1
    pause: Duration = 0


class WithSettings:
    def __init__(self, settings: Depth) -> None:
        self.settings = settings

    @staticmethod
    @hookimpl
    def register_settings() -> type[Depth]:
        return Depth


class Plain:
    @hookimpl
    def app_started(self) -> None: ...


class Broken:
    def __init__(self) -> None:
        raise OSError("no disk")

    @hookimpl
    def app_started(self) -> None: ...


class Typo:
    @hookimpl
    def after_consum(self) -> None: ...


class Async:
    @hookimpl
    async def app_started(self) -> None: ...


class Wrapper:
    @hookimpl(wrapper=True)
    def app_started(self) -> Any:
        yield


class StrangeArgument:
    @hookimpl
    def app_started(self, application: object) -> None: ...


class Hookless: ...


class SettingsOfAnInstance:
    @hookimpl
    def register_settings(self) -> type[Depth]:
        return Depth


class NoModel:
    @staticmethod
    @hookimpl
    def register_settings() -> type[Depth]:
        return int  # type: ignore[return-value]  # which is the mistake


class Strategy:
    def __init__(self, name: str) -> None:
        self.name = name

    def allocate(self, member: str, members: object, queues: object) -> list[Any]:
        return []


class Offers:
    def __init__(self, *offered: object) -> None:
        self.offered = offered

    @hookimpl
    def register_allocation_strategies(self) -> list[Any]:
        if not self.offered:
            raise ZeroDivisionError("oh")
        return list(self.offered)


def entry(name: str, kind: type) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{kind.__name__}", GROUP)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points name this module, which pytest imports under a name of its own."""
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def host(*entries: EntryPoint, objects: dict[str, object] | None = None, **plugins: Any) -> PluginHost:
    settings = AppSettings.parsed({"plugins": plugins}, {("plugins", "settings", "deep", "depth"): "f.yaml:3:4"})
    assert isinstance(settings, AppSettings)
    return PluginHost(settings.plugins, settings, objects=objects, discover=lambda: entries)


def mistakes_of(*entries: EntryPoint, **options: Any) -> list[str]:
    with pytest.raises(ConfigurationMistakes) as caught:
        host(*entries, **options)
    return [str(each) for each in caught.value.mistakes]


def names(made: PluginHost) -> list[str]:
    return [each.name for each in made.plugins]


def test_the_built_ins_come_in_by_the_same_door() -> None:
    made = host()

    assert BUILT_IN == names(made)
    assert STRATEGIES == list(made.strategies)
    assert POLICIES == list(made.expiry_policies)
    assert ["broker", "local", "topic"] == list(made.progress_stores)
    assert {"built in"} == {each.source for each in made.plugins}
    assert f"<PluginHost {', '.join(BUILT_IN)}>" == repr(made)


def test_what_is_installed_is_loaded() -> None:
    made = host(entry("plain", Plain))

    assert [*BUILT_IN, "plain"] == names(made)
    assert ("app_started",) == made.plugins[-1].hooks


def test_what_is_blocked_is_not_even_imported() -> None:
    gone = EntryPoint("gone", "no.such.module:Plugin", GROUP)

    assert [*BUILT_IN, "plain"] == names(host(gone, entry("plain", Plain), block="gone"))


def test_a_pin_leaves_out_all_others() -> None:
    gone = EntryPoint("gone", "no.such.module:Plugin", GROUP)

    assert [*BUILT_IN, "plain"] == names(host(gone, entry("plain", Plain), only="plain"))
    assert BUILT_IN == names(host(entry("plain", Plain), only=[]))


def test_each_host_has_instances_of_its_own() -> None:
    first, second = host(entry("plain", Plain)), host(entry("plain", Plain))

    assert first.plugins[-1].plugin is not second.plugins[-1].plugin


def test_settings_are_checked_with_the_plugin_s_own_model() -> None:
    made = host(entry("deep", WithSettings), settings={"deep": {"depth": "3", "pause": "2s"}})

    plugin = made.plugins[-1].plugin
    assert isinstance(plugin, WithSettings)
    assert Depth(depth=3, pause=2_000) == plugin.settings


def test_a_mistake_in_a_plugin_s_settings_has_its_place() -> None:
    (mistake,) = mistakes_of(entry("deep", WithSettings), settings={"deep": {"depth": "x"}})

    assert "f.yaml:3:4: plugins.settings.deep.depth: expected a whole number, found 'x'" == mistake


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Broken, "OSError: no disk"),
        (Typo, "there is no hook 'after_consum'; did you mean 'after_consume'?"),
        (Async, "the hook 'app_started' is async; hooks are plain functions"),
        (Wrapper, "the hook 'app_started' is a wrapper"),
        (StrangeArgument, "application"),
        (Hookless, "implements no hook"),
        (SettingsOfAnInstance, "register_settings must be a static method"),
        (NoModel, "return a pydantic model"),
    ],
)
def test_a_broken_plugin_stops_the_start_with_its_name_and_cause(kind: type, reason: str) -> None:
    (mistake,) = mistakes_of(entry("bad", kind))

    assert mistake.startswith("plugin 'bad' (")
    assert reason in mistake
    assert "block: [bad]" in mistake


def test_a_broken_plugin_that_is_blocked_stops_nothing() -> None:
    assert BUILT_IN == names(host(entry("bad", Broken), block=["bad"]))


def test_all_mistakes_are_said_at_once() -> None:
    shown = mistakes_of(
        entry("bad", Broken), entry("plain", Plain), entry("plain", Plain),
        only=["bad", "plain", "plan"], settings={"plian": {}, "plain": {"a": "b"}},
    )  # fmt: skip

    assert 5 == len(shown)
    for part in (
        "plugin 'bad'",
        "two plugins are named 'plain'",
        "plugins.only: no plugin 'plan' is installed; did you mean 'plain'?",
        "plugins.settings: no plugin 'plian' is installed; did you mean 'plain'?",
        "plugins.settings: the plugin 'plain' has no settings",
    ):
        assert any(part in each for each in shown)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dep", "plugins.block: no plugin 'dep' is installed; did you mean 'deep'?"),
        (
            "sticky",
            "plugins.block: 'sticky' is built in and cannot be blocked; it does nothing unless a setting names it",
        ),
    ],
)
def test_a_block_that_blocks_nothing_is_refused(name: str, reason: str) -> None:
    (mistake,) = mistakes_of(entry("deep", WithSettings), block=[name])

    assert reason in mistake


def test_settings_for_a_blocked_plugin_are_no_mistake() -> None:
    """One file may serve several environments."""
    assert BUILT_IN == names(host(entry("deep", WithSettings), block="deep", settings={"deep": {"x": "y"}}))


def test_local_plugins_are_modules_or_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "from framework.hooks import hookimpl\n"
    function = "@hookimpl\ndef app_started(app): ...\n"
    method = "class {}:\n    @hookimpl\n    def app_started(self): ...\n"
    (tmp_path / "local_module.py").write_text(head + function)
    (tmp_path / "local_class.py").write_text(head + method.format("One"))
    (tmp_path / "local_pair.py").write_text(head + method.format("One") + method.format("Two"))
    (tmp_path / "local_none.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    made = host(local=["local_module", "local_class", "local_pair:Two"])
    assert ["local_module", "local_class", "local_pair"] == names(made)[len(BUILT_IN) :]

    shown = mistakes_of(local=["local_pair", "local_none", "local_pair:Tow", "local_gone"])
    for part in (
        "holds several plugins (One, Two); name one: local_pair:One",
        "local_none implements no hook",
        "two plugins are named 'local_pair'",
        "there is no module 'local_gone'; correct plugins.local, or install it",
    ):
        assert any(part in each for each in shown)
    assert any("did you mean 'Two'?" in each for each in mistakes_of(local=["local_pair:Tow"]))


def test_a_hook_that_an_instance_takes_away_is_not_implemented() -> None:
    """So a plugin that is switched off by its settings costs a message nothing."""
    plugin = Plain()
    plugin.app_started = None  # type: ignore[method-assign, assignment]  # which is what takes it away

    (mistake,) = mistakes_of(objects={"plain": plugin})
    assert "implements no hook" in mistake


class Leaves:
    def __init__(self) -> None:
        raise SystemExit(3)

    @hookimpl
    def app_started(self) -> None: ...


def test_a_plugin_that_leaves_while_it_is_loaded_is_named_and_ends_nothing() -> None:
    made = PluginHost(discover=lambda: [entry("leaves", Leaves)], tolerant=True)

    (mistake,) = made.mistakes
    assert "cannot be loaded: SystemExit: 3" in str(mistake)
