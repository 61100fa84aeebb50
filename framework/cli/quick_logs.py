"""structlog without what it takes along for show, for a command whose start is waited for and that runs nobody's code.

Wherever rich is installed, structlog imports it for tracebacks in colour: a quarter of the box's start, and our lines
never have any, since a traceback is text before it is rendered.
"""

from __future__ import annotations

import sys
from importlib import import_module

FOR_SHOW = ("rich", "better_exceptions")


def import_structlog() -> None:
    """For the first time; a later import of one of those works as usual."""
    hidden = [name for name in FOR_SHOW if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: "not to be found", says the import system
    try:
        import_module("structlog")
    finally:
        for name in hidden:
            del sys.modules[name]
