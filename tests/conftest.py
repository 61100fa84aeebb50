"""What holds for every test: where a machine lacks something, that is said after everything else, and in CI it fails."""

from __future__ import annotations

import pytest

from tests.interop import requirements


def pytest_configure(config: pytest.Config) -> None:
    requirements.install(config, [requirements.REAL_CLUSTER])
