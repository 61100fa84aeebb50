"""What kind of object a plugin is (a class, an instance or a module), and what its settings are.

It asks only the object itself; it knows no host and no settings.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType

from pydantic import BaseModel

from framework.errors import nearest
from framework.hooks.failures import reject_coroutine
from framework.hooks.signatures import marked
from framework.mistakes import PluginBroken


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
