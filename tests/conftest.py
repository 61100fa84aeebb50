"""For every test: what a machine lacks is said after everything else, and is a failure in CI."""

from __future__ import annotations

import pytest

from tests.interop import requirements


def pytest_configure(config: pytest.Config) -> None:
    requirements.install(config, [requirements.REAL_CLUSTER])
