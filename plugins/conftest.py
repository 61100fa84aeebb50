"""For the tests of all plugins: what holds for the framework's, too."""  # noqa: INP001 - a folder of distributions

from __future__ import annotations

from tests import chance  # noqa: F401 - whoever collects a test has its profile of hypothesis
from tests.left_over import nothing_left_over
from tests.restored_logs import logs_as_they_were

__all__ = ["logs_as_they_were", "nothing_left_over"]
