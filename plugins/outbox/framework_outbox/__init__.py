"""Outbox: messages written in the handler's own database transaction, and sent once it is committed.

Handlers need these two names; `relay.py` says how rows become messages. The names are loaded when they are first used,
so that an application that has the plugin and no database for it imports next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework_outbox.resource import outbox as outbox
    from framework_outbox.writing import Outbox as Outbox

_HOME_OF = {"Outbox": "framework_outbox.writing", "outbox": "framework_outbox.resource"}

__all__ = ["Outbox", "outbox"]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'framework_outbox' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
