"""The whole cluster in one process: virtual time, faults, checkers; and `Harness`, the kit for application authors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.testing.harness import Harness as Harness
    from framework.testing.plugin_laws import PluginLaws as PluginLaws
    from framework.testing.story import Story as Story
    from framework.testing.swarm.cluster import Cluster as Cluster

_HOME_OF = {
    "Cluster": "framework.testing.swarm.cluster",
    "Harness": "framework.testing.harness",
    "PluginLaws": "framework.testing.plugin_laws",
    "Story": "framework.testing.story",
}

__all__ = ["Cluster", "Harness", "PluginLaws", "Story"]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'framework.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
