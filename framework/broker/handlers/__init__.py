"""The table of requests that the broker answers: `ls` in this folder is the coverage report.

A file per request code, the number first, whose docstring names where the answer differs from RocketMQ's. Its
`handle` is in the table because the file is in the folder; there is no list to keep.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from framework.broker.request import Handler

HANDLERS: dict[int, Handler] = {
    int(found.name.split("_")[1]): import_module(f"{__name__}.{found.name}").handle for found in iter_modules(__path__)
}
