"""For every test: what a machine lacks is said after everything else, and is a failure in CI."""

from __future__ import annotations

import pytest

from tests.interop import requirements
from tests.restored_logs import logs_as_they_were

__all__ = ["logs_as_they_were"]


def pytest_configure(config: pytest.Config) -> None:
    requirements.install(config, [requirements.REAL_CLUSTER, requirements.GO])
