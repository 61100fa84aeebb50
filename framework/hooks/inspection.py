"""What kind of thing a plugin is: a class, an instance or a module; which hooks it has, and whether they can be called.

Asks the thing itself only; knows no host and no settings.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from framework.errors import ConfigurationError, nearest
from framework.hooks import specs
from framework.hooks.markers import PROJECT

_MARK = f"{PROJECT}_impl"


def plugin_in(name: str) -> object:
    """A local plugin: `package.module:Class`, or a module that is a plugin or holds exactly one."""
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name)
    if attribute:
        if not hasattr(module, attribute):
            close = nearest(attribute, [name for name in vars(module) if not name.startswith("_")])
            raise ConfigurationError(f"{module_name} has no {attribute!r}{close}")
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
        raise ConfigurationError(found or f"{module_name} implements no hook; mark its functions with @hookimpl")
    return classes[0]


def marked(plugin: object) -> list[str]:
    """Names of what is marked with @hookimpl."""
    names = vars(plugin) if isinstance(plugin, ModuleType) else dir(plugin)
    return [name for name in names if not name.startswith("__") and hasattr(_attribute(plugin, name), _MARK)]


def settings_model(plugin: object) -> type[BaseModel] | None:
    """What `register_settings` answers; asked of the class, before there is an instance."""
    if "register_settings" not in marked(plugin):
        return None
    kind = plugin if isinstance(plugin, type) else type(plugin)
    if isinstance(plugin, ModuleType) or not isinstance(
        inspect.getattr_static(kind, "register_settings"), staticmethod | classmethod
    ):
        raise ConfigurationError("register_settings must be a static method of a class that is made with its settings")
    model = kind.register_settings()  # type: ignore[attr-defined]  # it is there: it is marked
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigurationError(f"register_settings answered {model!r}; answer a pydantic model")
    return model


def made(plugin: object, settings: BaseModel | None) -> object:
    """The plugin as it is registered: an instance for a class, the module or object itself otherwise; checked."""
    names = marked(plugin)
    if not names:
        raise ConfigurationError("it implements no hook; mark its functions with @hookimpl")
    for name in names:
        if name not in specs.NAMES:
            known = nearest(name, specs.NAMES) or f"; there are: {', '.join(specs.NAMES)}"
            raise ConfigurationError(f"there is no hook {name!r}{known}")
        if inspect.iscoroutinefunction(_attribute(plugin, name)):
            raise ConfigurationError(f"the hook {name!r} is async; hooks are plain functions")
        options = getattr(_attribute(plugin, name), _MARK)
        if options.get("wrapper") or options.get("hookwrapper"):
            raise ConfigurationError(f"the hook {name!r} is a wrapper; implementations are called one by one")
        if inspect.isgeneratorfunction(_attribute(plugin, name)) or inspect.isasyncgenfunction(
            _attribute(plugin, name)
        ):
            raise ConfigurationError(f"the hook {name!r} yields; write @contextmanager below @hookimpl")
    if isinstance(plugin, type):
        return plugin(settings) if settings is not None else plugin()
    return plugin


def _attribute(plugin: object, name: str) -> Any:
    """Without running properties of an object we do not know."""
    found = inspect.getattr_static(plugin, name, None)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found
