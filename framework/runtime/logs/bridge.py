"""What handlers and libraries say by the standard library's logging comes out as our own lines do.

One handler at the root logger, put there where logging is configured and nowhere else: an application that is embedded
in somebody's process leaves their logging alone. It runs the same processors, so fields, format and the masking of
secrets are the same; what nobody logs costs nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import structlog
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_logger_name
from structlog.typing import Processor

from framework.runtime.logs.lines import Lines

QUIET: Mapping[str, int] = dict.fromkeys(("py4j", "uvicorn.access", "httpx", "urllib3", "botocore"), logging.WARNING)
"""Loggers with a line for each call of something, unless `logging.levels` names them."""


class Bridge(logging.Handler):
    """Renders records by our processors. Safe to be called again by what it calls."""

    def __init__(self, processors: Sequence[Processor], target: Any) -> None:
        super().__init__()
        self._lines = Lines(target)
        self._busy = threading.local()
        self.named: tuple[str, ...] = ()
        """Loggers whose level we have set."""
        self.setFormatter(
            ProcessorFormatter(
                foreign_pre_chain=[ExtraAdder(), _without_rendered, add_logger_name],
                processors=[ProcessorFormatter.remove_processors_meta, *processors],
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(self._busy, "is_on", False):
            return  # a value that logs while it is turned into text
        self._busy.is_on = True
        try:
            text = self.format(record)
        except Exception as error:  # noqa: BLE001 - border: whoever logged, with arguments that do not fit its text
            place, reason = f"{record.pathname}:{record.lineno}", f"{type(error).__name__}: {error}"
            structlog.get_logger().warning("line not formatted", logger=record.name, place=place, reason=reason)
        else:
            self._lines.msg(text)
        finally:
            self._busy.is_on = False


def _without_rendered(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What another handler's formatter, which came first, has left in the record; nobody can log under these names."""
    for name in ("message", "asctime"):
        event.pop(name, None)
    return event


def route(level: int, processors: Sequence[Processor], target: Any, levels: Mapping[str, int]) -> None:
    """Have all loggers that nobody took out of the tree write by these, from `level` on; `levels` are single ones'."""
    unroute()
    bridge, root = Bridge(processors, target), logging.getLogger()
    root.addHandler(bridge)
    root.setLevel(level)
    wanted = {name: max(level, least) for name, least in QUIET.items()} | dict(levels)
    for name, least in wanted.items():
        logging.getLogger(name).setLevel(least)
    bridge.named = tuple(wanted)


def unroute() -> None:
    """As before `route`, but for handlers that others have added since."""
    root = logging.getLogger()
    for each in [handler for handler in root.handlers if isinstance(handler, Bridge)]:
        root.removeHandler(each)
        root.setLevel(logging.WARNING)
        for name in each.named:
            logging.getLogger(name).setLevel(logging.NOTSET)
