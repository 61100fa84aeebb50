"""PluginHost: which plugins there are, which of them are loaded, and what they offer. One host an App.

What is installed and not blocked is loaded; what is not loaded is not even imported. A plugin that cannot be loaded
stops the start, since a policy or a metric that is missing must not go unnoticed. Knows no settings file: choices and
places are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import itemgetter
from typing import Any, Protocol

import pluggy
import structlog
from pydantic import BaseModel, ValidationError

from framework.errors import ConfigurationError, ConfigurationMistakes, Findings, nearest
from framework.hooks import specs
from framework.hooks.calls import Calls, Implementation
from framework.hooks.contained import ContainedStrategy
from framework.hooks.failures import line_of, plugin_failure, raised
from framework.hooks.markers import PROJECT
from framework.hooks.registrations import Registrations
from framework.hooks.signatures import check, check_version, going, made, marked, plugin_in, settings_model
from framework.hooks.validated import Origin, validated
from framework.mistakes import OfferWrong, PluginBroken, PluginUnknown
from framework.model.contracts import AllocationStrategy

_log = structlog.get_logger(__name__)

GROUP = "framework_app.plugins"
_OURS = "built in"
BUILT_IN = {
    name: f"framework.hooks.builtin.{kind}.{name}"
    for kind, names in {
        "allocation": "averaging by_config circle consistent_hash machine_room nearby sticky",
        "codec": "codec_json",
        "dedup": "once_memory once_sqlite",
        "expiry": "dead_letter drop extend send_back",
        "progress": "progress_broker progress_local progress_topic",
    }.items()
    for name in names.split()
}


class Choice(Protocol):
    """What the settings say about plugins (`AppSettings.plugins`)."""

    @property
    def block(self) -> Sequence[str]: ...
    @property
    def only(self) -> Sequence[str] | None: ...
    @property
    def local(self) -> Sequence[str]: ...
    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """One plugin of this host; as `framework-app plugins` shows it."""

    name: str
    source: str
    """Distribution and version, `built in`, or the local module."""
    plugin: object
    hooks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    source: str
    load: Callable[[], object]
    place: str | None = None
    is_installed: bool = False


def installed() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


class PluginHost:
    """The plugins of one App, with their hooks in calling order."""

    def __init__(
        self,
        choice: Choice | None = None,
        origin: Origin | None = None,
        *,
        objects: Mapping[str, object] | None = None,
        discover: Callable[[], Iterable[EntryPoint]] = installed,
        tolerant: bool = False,
    ) -> None:
        """Load what `choice` says; `objects` are plugins made by the caller. Raises ConfigurationMistakes; a `tolerant`
        host, which is there to be looked at and not to run, leaves out what is wrong and has it in `mistakes`.
        """
        self._choice, self._origin, self._is_tolerant = choice, origin, tolerant
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(specs.Hooks)
        self.mistakes: list[ConfigurationError] = []
        """What is wrong with plugins; each names its own."""
        self.models: dict[str, type[BaseModel]] = {}
        """What the settings of plugins are, by the plugin's name; also of those whose settings are wrong."""
        self._sources: dict[str, str] = {}
        found = tuple(discover())
        self._installed = sorted({entry.name for entry in found})
        for candidate in self._candidates(found, objects or {}):
            self._load(candidate)
        if choice is not None:
            self.mistakes += self._wrong_names(choice, origin)
        if self.mistakes and not tolerant:
            raise ConfigurationMistakes(self.mistakes)
        self.calls = Calls([each for hook in specs.NAMES for each in self._implementations(hook)])
        self.plugins = tuple(self._described())
        self.unfailing: Mapping[str, int] = {each.name: 0 for each in self.plugins if each.source != _OURS}
        """No failure yet of each plugin that is not ours: a count that begins with 1 hides its first from a rate."""
        self.order = {hook: self.calls.order.get(hook, ()) for hook in specs.NAMES}
        """Hook -> the plugins that implement it, in calling order."""
        offers = Registrations(self.calls, self._implementations, self._fault)
        self._strategy_owners = offers.strategy_owners
        self.strategies = offers.strategies
        """Allocation strategies by name, as they were offered: see `contained`."""
        self.expiry_policies = offers.expiry_policies
        """What to do with messages whose handlers take too long, by name; each contains its failures."""
        self.progress_stores = offers.progress_stores
        """Where what has ended above a gap is kept, by name."""
        self.dedup_stores = offers.dedup_stores
        """Where `once` remembers what was handled, by name."""
        self.runners = offers.runners
        """Ways to run handlers, by the engine's name."""
        self.codecs = offers.codecs
        """Ways to read bodies, by name."""
        self.commands = offers.commands
        """Commands of `framework-app` beside its own, by name, with the plugin that each is of."""
        self.broker_handlers = offers.broker_handlers
        """What the built-in broker answers by plugins, by request code; each contains its failures."""
        if self.mistakes and not tolerant:
            raise ConfigurationMistakes(self.mistakes)

    def _candidates(self, found: Iterable[EntryPoint], objects: Mapping[str, object]) -> list[_Candidate]:
        candidates = [_Candidate(name, _OURS, partial(import_module, module)) for name, module in BUILT_IN.items()]
        candidates += [
            _Candidate(entry.name, _source(entry), entry.load, is_installed=True)
            for entry in sorted(found, key=lambda entry: (entry.name, _source(entry)))
            if self._is_wanted(entry.name)
        ]
        for at, name in enumerate(self._choice.local if self._choice else ()):
            short = name.partition(":")[0].rpartition(".")[2]
            place = self._place("plugins", "local", str(at))
            candidates.append(_Candidate(short, name, partial(plugin_in, name), place))
        candidates += [_Candidate(name, "given", partial(_itself, each)) for name, each in objects.items()]
        return candidates

    def _is_wanted(self, name: str) -> bool:
        choice = self._choice
        if choice is None:
            return True
        return name not in choice.block and (choice.only is None or name in choice.only)

    def _load(self, candidate: _Candidate) -> None:
        name, place = candidate.name, candidate.place
        other = self._sources.get(name)
        if other is not None:
            message = f"two plugins are named {name!r}: {other} and {candidate.source}; block or rename one"
            self.mistakes.append(PluginBroken(message, place=place))
            return
        self._sources[name] = candidate.source
        try:
            self._register(name, candidate.load())
        except ConfigurationMistakes as mistakes:
            self.mistakes += mistakes.mistakes
        except BaseException as error:  # noqa: BLE001 - border: a plugin's code runs when it is loaded
            plugin_failure(error)
            message = f"plugin {name!r} ({candidate.source}) cannot be loaded: {_cause(error, candidate)}"
            if candidate.is_installed:
                message += f"; fix it, or write plugins: {{block: [{name}]}}"
            self.mistakes.append(PluginBroken(message, place=place))

    def _register(self, name: str, found: object) -> None:
        check_version(found)
        check(found)
        model = settings_model(found)
        if model is not None:
            self.models[name] = model
            if self._origin is not None:
                self._origin.hide(("plugins", "settings", name), model)
        plugin = made(found, self._settings(name, model) if model is not None else None)
        self._manager.register(plugin, name)

    def _settings(self, name: str, model: type[BaseModel]) -> BaseModel:
        try:
            return _validated(name, model, self._choice, self._origin)
        except ConfigurationMistakes as mistakes:
            if not self._is_tolerant or self._origin is None or self._choice is None:
                raise
            # Made of what is right in them: else all that it offers is missing, and complained of as well.
            right = self._origin.right_in(model, self._choice.settings.get(name, {}))
            try:
                made = model.model_validate(right)
            except ValidationError:
                raise mistakes from None
            self.mistakes += mistakes.mistakes
            return made

    def mistakes_in(self, choice: Choice, origin: Origin) -> list[ConfigurationError]:
        """What is wrong with other settings for the plugins that are loaded here, which keep those that they have."""
        findings = Findings()
        for name, model in self.models.items():
            origin.hide(("plugins", "settings", name), model)
            findings.tried(partial(_validated, name, model, choice, origin))
        findings.note(*self._wrong_names(choice, origin))
        return findings.mistakes

    def _wrong_names(self, choice: Choice, origin: Origin | None) -> Iterable[ConfigurationError]:
        """What is said of a plugin that is not there would otherwise be silently without effect."""

        def mistake(message: str, *path: str) -> ConfigurationError:
            place = origin.place("plugins", *path) if origin is not None else None
            return PluginUnknown(f"plugins.{path[0]}: {message}", place=place)

        known = sorted({*self._installed, *self._sources})
        for at, name in enumerate(choice.block):
            if name in self._installed:
                continue
            if self._sources.get(name) == _OURS:
                yield mistake(
                    f"{name!r} is built in and cannot be blocked; it does nothing unless a setting names it",
                    "block",
                    str(at),
                )
            elif name not in self._sources:  # or it is local, and meant instead of one that may be installed
                yield mistake(f"no plugin {name!r} is installed{nearest(name, self._installed)}", "block", str(at))
        for at, name in enumerate(choice.only or ()):
            if name not in known:
                yield mistake(f"no plugin {name!r} is installed{nearest(name, known)}", "only", str(at))
        for name in choice.settings:
            if name not in known:
                yield mistake(f"no plugin {name!r} is installed{nearest(name, known)}", "settings", name)
            elif name not in self.models and self._manager.has_plugin(name):
                yield mistake(f"the plugin {name!r} has no settings", "settings", name)

    def _place(self, *path: str) -> str | None:
        return self._origin.place(*path) if self._origin else None

    def _implementations(self, hook: str) -> Iterable[Implementation]:
        caller = getattr(self._manager.hook, hook)
        names = caller.spec.argnames
        # pluggy keeps the one to be called first at the end.
        for each in reversed(caller.get_hookimpls()):
            taken = tuple(each.argnames)
            if hook == "after_consume" and len(taken) in {2, 3} and taken == tuple(names[: len(taken)]):
                yield Implementation(each.plugin_name, hook, each.function, len(taken))  # as most are written
            else:
                yield Implementation(each.plugin_name, hook, _all_arguments(each.function, names, taken))

    def _described(self) -> Iterable[Loaded]:
        for name, plugin in self._manager.list_name_plugin():
            names = set(marked(plugin))
            hooks = tuple(hook for hook in specs.NAMES if hook in names)
            if self._sources[name] != _OURS:
                _log.info("plugin loaded", plugin=name, source=self._sources[name], hooks=list(hooks))
            for each in going(self._arguments_of(name)):
                _log.warning("hook deprecated", plugin=name, hook=each.hook, reason=str(each))
            yield Loaded(name, self._sources[name], plugin, hooks)

    def _arguments_of(self, plugin: str) -> dict[str, Sequence[str]]:
        """Hook -> the arguments that this plugin's implementation takes."""
        callers = [getattr(self._manager.hook, hook) for hook in specs.NAMES]
        return {
            caller.name: each.argnames
            for caller in callers
            for each in caller.get_hookimpls()
            if each.plugin_name == plugin
        }

    def contained(self, name: str, strategy: AllocationStrategy) -> AllocationStrategy:
        """The strategy with this name, with its failures and its time counted for its plugin."""
        return ContainedStrategy(self.calls, self._strategy_owners[name], strategy)

    def _fault(self, message: str) -> None:
        self.mistakes.append(OfferWrong(message))

    def __repr__(self) -> str:
        return f"<PluginHost {', '.join(self._sources)}>"


def _validated(name: str, model: type[BaseModel], choice: Choice | None, origin: Origin | None) -> BaseModel:
    values = choice.settings.get(name, {}) if choice else {}
    return validated(model, values, ("plugins", "settings", name), origin)


def _source(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _cause(error: BaseException, candidate: _Candidate) -> str:
    if isinstance(error, ConfigurationError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and f"{candidate.source.partition(':')[0]}.".startswith(f"{error.name}."):
        return f"there is no module {error.name!r}; correct plugins.local, or install it"
    place = line_of(error)
    return f"{raised(error)}{f' ({place})' if place else ''}{'' if candidate.is_installed else '; correct it'}"


def _all_arguments(function: Callable[..., Any], given: Sequence[str], taken: Sequence[str]) -> Callable[..., Any]:
    """The function as one that takes all the hook's arguments by position, whatever it left out of its signature."""
    if tuple(given) == tuple(taken):
        return function
    if not taken:
        return lambda *_: function()
    if tuple(taken) == tuple(given[:1]):
        return lambda first, *_: function(first)
    picked = itemgetter(*(given.index(name) for name in taken))  # of one it is the argument, of several a tuple
    if len(taken) == 1:
        return lambda *arguments: function(picked(arguments))
    return lambda *arguments: function(*picked(arguments))


def _itself(plugin: object) -> object:
    return plugin
