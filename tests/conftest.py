"""For every test: what a machine lacks is said after everything else, and is a failure in CI."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from framework.runtime.log_bridge import unroute
from tests.interop import requirements


def pytest_configure(config: pytest.Config) -> None:
    requirements.install(config, [requirements.REAL_CLUSTER, requirements.GO])


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A command run inside a test configures logging for its own, captured stderr, which is closed after the test."""
    yield
    structlog.reset_defaults()
    unroute()
