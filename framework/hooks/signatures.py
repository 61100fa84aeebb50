"""What kind of object a plugin is, what its settings are, and whether its hooks can be called as they are written:
names, marks and arguments are checked before the first call.

A hook is called by position with the arguments that it names. One that would get a wrong argument, or none, is refused
with the right signature. It asks only the object and its functions; it knows no host and no settings.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from framework.errors import nearest
from framework.hooks import specs
from framework.hooks.failures import reject_coroutine
from framework.hooks.markers import PROJECT
from framework.mistakes import HookWrong, PluginBroken, PluginVersionWrong

_MARK = f"{PROJECT}_impl"
_ARGUMENTS = {name: tuple(inspect.signature(getattr(specs.Hooks, name)).parameters)[1:] for name in specs.NAMES}
_SELVES = ("self", "this", "me", "cls")


def marked(plugin: object) -> list[str]:
    """Names of what is marked with @hookimpl."""
    return [name for name in _names(plugin) if not name.startswith("__") and hasattr(_function(plugin, name), _MARK)]


def check(plugin: object) -> None:
    """ConfigurationError for the first hook that cannot be called as it is written, and where there is none."""
    names = marked(plugin)
    if not names:
        raise HookWrong("implements no hook; mark its functions with @hookimpl")
    for name in names:
        function = _function(plugin, name)
        if name not in specs.NAMES:
            known = nearest(name, specs.NAMES) or f"; there are: {', '.join(specs.NAMES)}"
            raise HookWrong(f"there is no hook {name!r}{known}{_place(function)}")
        is_bound = _is_bound(plugin, name)
        wrong = _wrong_kind(name, function) or _wrong_arguments(name, function, is_bound=is_bound)
        if wrong is not None:
            raise HookWrong(f"the hook {name!r} {wrong}; write {_right(name, plugin)}{_place(function)}")
    for name in specs.NAMES:
        found = inspect.getattr_static(plugin, name, None)
        if name not in names and inspect.isfunction(getattr(found, "__func__", found)):
            where = "below @staticmethod or @classmethod" if hasattr(found, _MARK) else "above it"
            place = _place(_function(plugin, name))
            raise HookWrong(f"{name!r} is not marked, so it is never called; write @hookimpl {where}{place}")


def _wrong_kind(name: str, function: Any) -> str | None:
    options = getattr(function, _MARK)
    if options.get("wrapper") or options.get("hookwrapper"):
        return "is a wrapper, which is not supported"
    if not inspect.isroutine(function):
        return f"is a {type(function).__name__} and no function"
    if inspect.iscoroutinefunction(function):
        return "is async; hooks are plain functions"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        is_context = name == "around_consume"
        return f"yields; {'write @contextmanager below @hookimpl' if is_context else 'hooks are plain functions'}"
    return None


def _wrong_arguments(name: str, function: Any, *, is_bound: bool) -> str | None:
    taken = list(inspect.signature(function).parameters.values())
    known = _ARGUMENTS[name]
    if is_bound:
        first = taken.pop(0) if taken and taken[0].kind is not inspect.Parameter.VAR_POSITIONAL else None
        if first is None or (first.name not in _SELVES and not first.name.startswith("_")):
            return "has no self, in whose place it would be given the plugin"
    for each in taken:
        if each.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            stars = "*" if each.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            return f"takes {stars}{each.name}, which would be given nothing"
        if each.default is not inspect.Parameter.empty:
            return f"has a default for {each.name!r}, which would be taken instead of what the hook is told"
        if each.name not in known:
            return f"takes {each.name!r}, which the hook is not told{nearest(each.name, known)}"
        if each.kind is inspect.Parameter.KEYWORD_ONLY:
            return f"takes {each.name!r} by its name only, and hooks are called by position"
    return None


def _right(name: str, plugin: object) -> str:
    if name == "register_settings":
        return "@staticmethod, @hookimpl, def register_settings()"
    own = () if isinstance(plugin, ModuleType) else ("self",)
    text = f"def {name}({', '.join((*own, *_ARGUMENTS[name]))})"
    return f"{text}, or leave out what is not needed" if _ARGUMENTS[name] else text


def _place(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""


def _names(plugin: object) -> Iterator[str]:
    yield from vars(plugin) if isinstance(plugin, ModuleType) else dir(plugin)


def _is_bound(plugin: object, name: str) -> bool:
    """Whether it gets something in front of its arguments: the plugin, or its class."""
    found = inspect.getattr_static(plugin, name)
    if isinstance(found, staticmethod) or isinstance(plugin, ModuleType):
        return False
    if isinstance(found, classmethod):
        return True
    return inspect.isfunction(found) and (isinstance(plugin, type) or name not in getattr(plugin, "__dict__", {}))


def _function(plugin: object, name: str) -> Any:
    """Without running properties of an object we do not know."""
    found = inspect.getattr_static(plugin, name, None)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def plugin_in(name: str) -> object:
    """A local plugin: `package.module:Class`, or a module that is a plugin or holds exactly one."""
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name)
    if attribute:
        if not hasattr(module, attribute):
            close = nearest(attribute, [name for name in vars(module) if not name.startswith("_")])
            raise PluginBroken(f"{module_name} has no {attribute!r}{close}")
        return getattr(module, attribute)
    if marked(module):
        return module
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and marked(value)
    ]
    if len(classes) != 1:
        names = ", ".join(each.__name__ for each in classes)
        found = f"holds several plugins ({names}); name one: {module_name}:{classes[0].__name__}" if names else None
        raise PluginBroken(found or f"{module_name} implements no hook; mark its functions with @hookimpl")
    return classes[0]


def settings_model(plugin: object) -> type[BaseModel] | None:
    """What `register_settings` returns; called on the class, before there is an instance."""
    if "register_settings" not in marked(plugin):
        return None
    kind = plugin if isinstance(plugin, type) else type(plugin)
    if isinstance(plugin, ModuleType) or not isinstance(
        inspect.getattr_static(kind, "register_settings"), staticmethod | classmethod
    ):
        raise PluginBroken("register_settings must be a static method of a class whose constructor takes the settings")
    model = kind.register_settings()  # type: ignore[attr-defined]  # it is there: it is marked
    reject_coroutine(model, "register_settings")
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise PluginBroken(f"register_settings returned {model!r}; return a pydantic model class")
    return model


def made(plugin: object, settings: BaseModel | None) -> object:
    """The plugin as it is registered: an instance for a class, the module or object itself otherwise."""
    if isinstance(plugin, type):
        return plugin(settings) if settings is not None else plugin()
    return plugin


VERSION = 4
"""Rises when a hook or an argument is added, and when one goes. A plugin that needs newer hooks says `HOOKS_VERSION =
5`.
"""


@dataclass(frozen=True, slots=True)
class Deprecation:
    """One hook, or one argument of it, that goes."""

    hook: str
    argument: str = ""
    """Empty: the whole hook."""
    goes_in: int = 0
    instead: str = ""
    """What to write."""

    def __str__(self) -> str:
        what = f"argument {self.argument!r} of {self.hook}" if self.argument else f"hook {self.hook}"
        return f"the {what} goes in version {self.goes_in} of the hooks; {self.instead}"


DEPRECATED: tuple[Deprecation, ...] = ()
"""A hook is listed for a whole version before it is removed; each plugin that implements it is logged at every start.
"""


def check_version(plugin: object) -> None:
    """Raise where a plugin was written for hooks that are not here."""
    needed = getattr(plugin, "HOOKS_VERSION", VERSION)
    if not isinstance(needed, int) or isinstance(needed, bool) or needed < 1:
        raise PluginVersionWrong(f"HOOKS_VERSION is {needed!r}; write a number from 1 to {VERSION}, or remove it")
    if needed > VERSION:
        raise PluginVersionWrong(
            f"needs version {needed} of the hooks, but this is version {VERSION}; upgrade framework-app"
        )


def going(implemented: Mapping[str, Sequence[str]]) -> Iterator[Deprecation]:
    """What of these hooks and their arguments goes."""
    for each in DEPRECATED:
        arguments = implemented.get(each.hook)
        if arguments is not None and (not each.argument or each.argument in arguments):
            yield each
