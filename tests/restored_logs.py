"""A fixture for conftests: logging after each test as it was before. And a traceback in a test's log: plain."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from framework.runtime.logs.setup import unroute

# As shipped, structlog draws one with rich, colours, locals and all: up to a second of the processor's time each.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command run inside a test configures logging for its own, captured stderr, which is closed after the test; a
    sink of Spark's does so for a worker, and would silence whoever comes after. Litestar gives all loggers a handler.
    """
    root = logging.getLogger()
    before, level = [*root.handlers], root.level
    yield
    structlog.reset_defaults()
    unroute()
    for handler in [*root.handlers]:
        if handler not in before and not type(handler).__module__.startswith("_pytest"):
            root.removeHandler(handler)
    root.setLevel(level)
