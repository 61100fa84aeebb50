"""Hooks that cannot be called as they are written are refused at load, with their place and the way to write them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import FunctionType, ModuleType
from typing import Any

import pytest

from framework.errors import ConfigurationMistakes
from framework.hooks import hookimpl, specs
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from tests.hooks.test_whatever_hooks_raise import REGISTERING, TOLD, host_of, plugin_with

BEFORE = "write def before_consume(self, delivery), or leave out what is not needed"
AFTER = "write def after_consume(self, delivery, outcome, elapsed_ms, kind), or leave out what is not needed"


def before(function: Any) -> type:
    """A plugin that has this in its class's body."""
    return plugin_of(before_consume=function)


def plugin_of(**hooks: Any) -> type:
    return type("Acme", (), hooks)


def mistake_of(plugin: object) -> str:
    with pytest.raises(ConfigurationMistakes) as caught:
        PluginHost(objects={"acme": plugin}, discover=list)
    (mistake,) = caught.value.mistakes
    return str(mistake)


def copied(function: Any) -> Any:
    """A mark is its function's own."""
    return FunctionType(function.__code__, {}, function.__name__)


def with_default(self: Any, delivery: object = None) -> None: ...
def with_another(self: Any, delivery: object, cache: object = None) -> None: ...
def with_star(self: Any, *args: object) -> None: ...
def with_stars(self: Any, delivery: object, **kw: object) -> None: ...
def only_star(*args: object) -> None: ...
def without_self(delivery: object) -> None: ...
def with_nothing() -> None: ...
def with_stranger(self: Any, delivry: object) -> None: ...
def by_name(self: Any, *, delivery: object) -> None: ...
async def is_async(self: Any, delivery: object) -> None: ...
def yields(self: Any, delivery: object) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (with_default, "has a default for 'delivery', which would be taken instead of what the hook is told"),
        (with_another, "has a default for 'cache', which"),
        (with_star, "takes *args, which would be given nothing"),
        (with_stars, "takes **kw, which would be given nothing"),
        (only_star, "has no self, in whose place it would be given the plugin"),
        (without_self, "has no self, in whose place it would be given the plugin"),
        (with_nothing, "has no self, in whose place it would be given the plugin"),
        (with_stranger, "takes 'delivry', which the hook is not told; did you mean 'delivery'?"),
        (by_name, "takes 'delivery' by its name only, and hooks are called by position"),
        (is_async, "is async; hooks are plain functions"),
        (yields, "yields; hooks are plain functions"),
    ],
)
def test_a_hook_that_cannot_be_called_as_it_is_written_is_refused(function: Any, reason: str) -> None:
    @wraps(function)
    def fresh(*args: object) -> object:
        return function(*args)

    marked = hookimpl(function if reason.startswith(("is async", "yields")) else fresh)
    line = function.__code__.co_firstlineno

    said = mistake_of(before(marked))
    assert f"plugin 'acme' (given) cannot be loaded: the hook 'before_consume' {reason}" in said
    assert said.endswith(f"{BEFORE} ({__file__}:{line})")


@pytest.mark.parametrize("hook", [each for each in specs.NAMES if each != "register_settings"])
def test_every_hook_is_looked_at(hook: str) -> None:
    def function(self: object, *args: object) -> None: ...

    function.__name__ = hook
    assert f"the hook '{hook}'" in (said := mistake_of(type("Acme", (), {hook: hookimpl(function)})))
    assert f"write def {hook}(self" in said


def test_register_settings_is_a_static_method_without_arguments() -> None:
    said = mistake_of(type("Acme", (), {"register_settings": hookimpl(lambda: None)}))

    assert "write @staticmethod, @hookimpl, def register_settings() (" in said


def test_of_a_module_no_self_is_asked_for() -> None:
    module = ModuleType("acme")
    vars(module)["after_consume"] = hookimpl(lambda self, delivery: None)

    said = mistake_of(module)
    assert "takes 'self', which the hook is not told" in said
    assert AFTER.replace("self, ", "") in said


def a_static_one(delivery: Delivery) -> None: ...
def of_a_class(cls: type, delivery: Delivery) -> None: ...
def some(self: Any, outcome: object, delivery: object) -> None: ...
def none_of_them(self: Any) -> None: ...
def by_place(self: Any, delivery: object, /) -> None: ...


@contextmanager
def a_context(self: Any, delivery: object) -> Iterator[None]:
    yield


class Instance:
    """Its hook is its own, and not its class's."""

    def __init__(self) -> None:
        self.before_consume = hookimpl(lambda delivery: None)


@pytest.mark.parametrize(
    "plugin",
    [
        before(staticmethod(hookimpl(a_static_one))),
        before(classmethod(hookimpl(of_a_class))),
        before(hookimpl(none_of_them)),
        before(hookimpl(by_place)),
        type("Acme", (), {"after_consume": hookimpl(some)}),
        type("Acme", (), {"around_consume": hookimpl(a_context)}),
        Instance(),
    ],
)
def test_whatever_can_be_called_is_loaded(plugin: object) -> None:
    calls = host_of(plugin).calls

    (hook,) = [hook for hook in TOLD if hook in dir(plugin)]
    TOLD[hook](calls)
    assert {} == calls.failures


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (type("Acme", (), {"after_consum": hookimpl(copied(some))}), "; did you mean 'after_consume'?"),
        (
            type("Acme", (), {"before_consume": copied(some), "after_consume": hookimpl(copied(some))}),
            "write @hookimpl above it",
        ),
        (
            type(
                "Acme",
                (),
                {"before_consume": hookimpl(staticmethod(copied(some))), "after_consume": hookimpl(copied(some))},
            ),
            "write @hookimpl below @staticmethod or @classmethod",
        ),
        (before(hookimpl(partial(copied(some)))), "is a partial and no function"),
        (before(hookimpl(copied(none_of_them), wrapper=True)), "is a wrapper"),
    ],
)
def test_what_would_never_be_called_is_refused(plugin: type, reason: str) -> None:
    assert reason in mistake_of(plugin)


async def nothing() -> None: ...


def numbers() -> Iterator[int]:
    yield from range(3)


@pytest.mark.parametrize("hook", TOLD)
@pytest.mark.parametrize("answers", [nothing, numbers])
def test_a_plain_function_that_returns_a_coroutine_has_failed(hook: str, answers: Callable[[], object]) -> None:
    """It has done nothing: nobody awaits it. It is closed, so that nothing is said of it later."""
    calls = host_of(plugin_with(hook, answers)).calls

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TOLD[hook](calls)
        calls.looks = 0
        TOLD[hook](calls)
    assert {"acme": 2} == calls.failures


@pytest.mark.parametrize("hook", REGISTERING)
def test_so_has_one_that_is_asked_at_load(hook: str) -> None:
    (mistake,) = host_of(plugin_with(hook, nothing), tolerant=True).mistakes

    assert "plugin 'acme'" in str(mistake)
    assert f"{hook} returned a coroutine, which is never awaited" in str(mistake)
