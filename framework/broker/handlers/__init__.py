"""The table of requests that the broker answers: `ls` in this folder is the coverage report.

A file per request code, the number first, whose docstring names where the answer differs from RocketMQ's. Its
`handle` is in the table because the file is in the folder; there is no list to keep. A file is imported when its first
request comes, or by `load_rest`: all of them together are a third of the box's start.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from framework.broker.request import Answer, Handler, Request


class Unloaded:
    """Stands in the table for a handler until that is imported."""

    __slots__ = ("_code", "_name", "_own")

    def __init__(self, name: str) -> None:
        self._name = name
        self._code = code_of(name)
        self._own: Handler | None = None

    def __call__(self, request: Request) -> Answer:
        return (self._own or self.load())(request)

    def load(self) -> Handler:
        """Import it, and have it in the table itself."""
        own: Handler = import_module(f"{__name__}.{self._name}").handle
        self._own = own
        if HANDLERS.get(self._code) is self:  # and nothing that was put there since
            HANDLERS[self._code] = own
        return own


def load_rest() -> Iterator[None]:
    """Import one at each step, of those whose requests have not come yet."""
    for handler in list(HANDLERS.values()):
        if isinstance(handler, Unloaded):
            handler.load()
            yield


def code_of(name: str) -> int:
    return int(name.split("_")[1])


HANDLERS: dict[int, Handler] = {code_of(found.name): Unloaded(found.name) for found in iter_modules(__path__)}
