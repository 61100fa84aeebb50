"""What authors test with: `Harness` runs an application and a broker in virtual time, `PluginLaws` try a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.testing.harness import Harness as Harness
    from framework.testing.plugin_laws import PluginLaws as PluginLaws

_HOME_OF = {
    "Harness": "framework.testing.harness",
    "PluginLaws": "framework.testing.plugin_laws",
}

__all__ = ["Harness", "PluginLaws"]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'framework.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
