"""A start that is waited for: no look for garbage while everything is imported, and nothing that is only for show.

What imports leave behind stays, so looking through it is time lost: a tenth of a start. And wherever rich is installed,
structlog takes it along for tracebacks in colour, 20 ms and 3 MB; our own lines have none, since a traceback is text
before it is rendered. Whoever renders one with it, an application with logs of its own, has it imported then.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

FOR_SHOW = ("rich", "rich.console", "rich.traceback", "rich.pretty")
DEPRECATED = "better_exceptions"


class Late(ModuleType):
    """A module, or what is in it, that is imported when it is called."""

    def __getattr__(self, name: str) -> Late:
        if name.startswith("__"):
            raise AttributeError(name)
        return Late(f"{self.__name__}.{name}")

    def __call__(self, *arguments: object, **options: object) -> object:
        from pkgutil import resolve_name

        return resolve_name(self.__name__)(*arguments, **options)


def begin() -> None:
    gc.disable()
    import_structlog()


def end() -> None:
    """Everything is imported: from here on garbage is looked for, and not among what is there already."""
    gc.freeze()
    gc.enable()


def import_structlog() -> None:
    """For the first time; a later import of what it shows with works as usual."""
    if "rich" in sys.modules or "structlog" in sys.modules:
        return
    is_there = find_spec("rich") is not None
    stand_ins: dict[str, ModuleType | None] = {name: Late(name) if is_there else None for name in FOR_SHOW}
    stand_ins[DEPRECATED] = None  # "not to be found", says the import system
    sys.modules.update(stand_ins)  # type: ignore[arg-type]
    try:
        import_module("structlog")
    finally:
        for name in stand_ins:
            del sys.modules[name]
