"""What plugins offer by `register_*` hooks: called once, checked, and known by its name. No name is given twice.

Nothing is contained here: an invalid offer is an error that names its plugin, since it must not be missing when it is
first needed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from framework.errors import shorten
from framework.hooks.calls import Calls, Implementation
from framework.hooks.contained import ContainedPolicy, contained_handler
from framework.hooks.failures import plugin_failure, reject_coroutine
from framework.model.box import BoxHandler
from framework.model.contracts import (
    COMMANDS,
    AllocationStrategy,
    Codec,
    Command,
    DedupStore,
    ExpiryPolicy,
    ProgressStore,
    Runner,
)

T = TypeVar("T")
Pair: TypeAlias = tuple[Any, Any]
Wrong: TypeAlias = Callable[[Any, Any], str | None]
"""What is wrong with a name and what it stands for; None where nothing is."""

_COMMAND = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")


class Registrations:
    """Of one host; the hooks are called when it is made."""

    def __init__(
        self,
        calls: Calls,
        implementations: Callable[[str], Iterable[Implementation]],
        fault: Callable[[str], None],
    ) -> None:
        self._calls, self._implementations, self._fault = calls, implementations, fault
        strategies = list(self._each("register_allocation_strategies", AllocationStrategy, "strategy", "allocate"))
        self.strategies: dict[str, AllocationStrategy] = _by_name((name, each) for _, name, each in strategies)
        self.strategy_owners = {name: plugin for plugin, name, _ in strategies}
        policies = self._each("register_expiry_policies", ExpiryPolicy, "expiry policy", "decide")
        self.expiry_policies: dict[str, ExpiryPolicy] = _by_name(
            (name, ContainedPolicy(calls, plugin, each)) for plugin, name, each in policies
        )
        progress = self._each("register_progress_stores", ProgressStore, "progress store", "open")
        self.progress_stores: dict[str, ProgressStore] = _by_name((name, each) for _, name, each in progress)
        dedup = self._each("register_dedup_stores", DedupStore, "dedup store", "open")
        self.dedup_stores: dict[str, DedupStore] = _by_name((name, each) for _, name, each in dedup)
        runners = self._mapped("register_runners", Runner, "engine", "prepared")
        self.runners: dict[str, Runner] = {name: each for _, name, each in runners}
        codecs = self._mapped("register_codecs", Codec, "codec", "decoder")
        self.codecs: dict[str, Codec] = {name: each for _, name, each in codecs}
        commands = self._mapped("register_commands", Command, "command", "add_options", "execute")
        self.commands: dict[str, tuple[str, Command]] = {name: (plugin, each) for plugin, name, each in commands}
        self.broker_handlers = self._broker_handlers()

    def _each(self, hook: str, kind: type[Any], what: str, method: str) -> Iterator[tuple[str, str, Any]]:
        """Plugin, name and thing, of hooks that answer a list of things with names."""

        def wrong(name: Any, one: Any) -> str | None:
            if name is None or not isinstance(one, kind):
                return f"{shorten(one)} has no name or no {method}()"
            return _wrong_name(what, name) or _wrong_methods(one, (method,))

        return self._named(hook, what, lambda answer: [(getattr(one, "name", None), one) for one in answer], wrong)

    def _mapped(self, hook: str, kind: type[Any], what: str, *methods: str) -> Iterator[tuple[str, str, Any]]:
        """The same of hooks that answer a mapping."""

        def wrong(name: Any, one: Any) -> str | None:
            if not isinstance(one, kind):
                return f"{shorten(one)} has no {' or '.join(f'{each}()' for each in methods)}"
            return _wrong_name(what, name) or _wrong_methods(one, methods)

        return self._named(hook, what, lambda answer: dict(answer).items(), wrong)

    def _broker_handlers(self) -> dict[int, BoxHandler]:
        hook, what = "register_broker_handlers", "handler of the built-in broker's request"

        def wrong(code: Any, found: Any) -> str | None:
            is_code = isinstance(code, int) and not isinstance(code, bool) and code > 0
            if not is_code or not callable(found):
                return f"{hook}: write {{request code: function}}, and not {{{shorten(code)}: {shorten(found)}}}"
            if inspect.iscoroutinefunction(found):
                return f"{hook}: {shorten(found)} is async; write a plain function, which answers at once"
            return None

        found = self._named(hook, what, lambda answer: dict(answer).items(), wrong)
        return {code: contained_handler(self._calls, plugin, code, each) for plugin, code, each in found}

    def _named(
        self, hook: str, what: str, pairs: Callable[[Any], Iterable[Pair]], wrong: Wrong
    ) -> Iterator[tuple[str, Any, Any]]:
        """What plugins answer to a `register_` hook, piece by piece."""
        owners: dict[Any, str] = {}
        for each in self._implementations(hook):
            try:
                answer = each.function()
                reject_coroutine(answer, hook)
                found = [(name, one, wrong(name, one)) for name, one in pairs(answer)]
            except BaseException as error:  # noqa: BLE001 - border: a plugin's
                plugin_failure(error)
                self._fault(f"plugin {each.plugin!r}: {hook} failed: {type(error).__name__}: {error}")
                continue
            for name, one, mistake in found:
                if mistake is not None:
                    self._fault(f"plugin {each.plugin!r}: {mistake}")
                elif name in owners:
                    self._fault(f"plugins {owners[name]!r} and {each.plugin!r} both offer the {what} {name!r}")
                else:
                    owners[name] = each.plugin
                    yield each.plugin, name, one


def _by_name(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    return dict(sorted(pairs, key=lambda pair: pair[0]))


def _wrong_name(what: str, name: object) -> str | None:
    if not isinstance(name, str) or not name.strip():
        return f"the {what} {shorten(name)} has no name; its name is a text that is not empty"
    if what == "command" and name in COMMANDS:
        return f"framework-app has a command {name!r} of its own; give yours another name"
    if what == "command" and not _COMMAND.fullmatch(name):
        return f"{name!r} is no name for a command; begin with a letter, and use letters, digits and - _ . :"
    return None


def _wrong_methods(one: object, methods: Iterable[str]) -> str | None:
    """These methods are called and not awaited; those that are awaited are not checked here."""
    for method in methods:
        if inspect.iscoroutinefunction(getattr(one, method)):
            return f"{method}() of {shorten(one)} is async; write a plain function"
    return None
