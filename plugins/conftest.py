"""For the tests of all plugins: what holds for the framework's, too."""  # noqa: INP001 - a folder of distributions

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests import chance  # noqa: F401 - whoever collects a test has its profile of hypothesis
from tests.left_over import nothing_left_over
from tests.restored_logs import logs_as_they_were

if TYPE_CHECKING:
    from tests.tracing import Tracing

__all__ = ["logs_as_they_were", "nothing_left_over"]


@pytest.fixture
def tracing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracing]:
    from tests.tracing import Tracing  # the SDK: for the few that ask

    tracing = Tracing(monkeypatch)
    yield tracing
    tracing.provider.shutdown()
