"""`--plugin` of the built-in broker: plugins whose request handlers it uses.

Only named plugins are loaded, so the broker starts fast, and needs nothing of what applications need.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from framework.errors import nearest
from framework.mistakes import OfferWrong, PluginUnknown

if TYPE_CHECKING:
    from framework.model.box import BoxHandler
    from framework.ports import Clock

HELP = "use this plugin's request handlers (register_broker_handlers): an installed one, or package.module[:Class]"


def add_option(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(name, metavar="NAME", action="append", default=[], help=f"{HELP}; repeatable")


def handlers_of(names: Sequence[str], clock: Clock) -> Mapping[int, BoxHandler] | None:
    """Their handlers by request code; ConfigurationError for one that is not installed, or has none."""
    if not names:
        return None
    from framework.hooks.host import PluginHost, installed
    from framework.runtime.plans.collect import importable
    from framework.settings.schema import AppSettings, PluginsSettings

    known = {entry.name for entry in installed()}
    local = tuple(name for name in names if name not in known)
    importable(Path.cwd())
    for name in local:
        if name.isidentifier() and find_spec(name) is None:
            hint = nearest(name, known) or f"; installed: {', '.join(sorted(known)) or 'none'}"
            raise PluginUnknown(f"no plugin {name!r} is installed, and there is no such module{hint}")
    settings = AppSettings(plugins=PluginsSettings(only=tuple(name for name in names if name in known), local=local))
    host = PluginHost(settings.plugins, settings)
    host.calls.now = clock.monotonic
    for name in names:
        short = name.partition(":")[0].rpartition(".")[2] if name in local else name
        if short not in host.order["register_broker_handlers"]:
            raise OfferWrong(f"plugin {name!r} has no register_broker_handlers, so the built-in broker cannot use it")
    return host.broker_handlers
