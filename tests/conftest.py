"""For every test: what a machine lacks is said after everything else, and is a failure in CI."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from itertools import count

import pytest

from tests import chance  # noqa: F401 - whoever collects a test has its profile of hypothesis
from tests.interop import requirements
from tests.left_over import nothing_left_over
from tests.restored_logs import logs_as_they_were
from tests.turns import pytest_collection_modifyitems

__all__ = ["logs_as_they_were", "nothing_left_over", "pytest_collection_modifyitems"]

_NUMBERS = count()


@pytest.fixture(autouse=True)
def looks_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a command remembers of a cluster is no other test's: addresses come again, with other brokers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{next(_NUMBERS)}"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is read stays, so looking for garbage among it, which took a third of the time, finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control has what it starts in the background ignore the signal, and so would our children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    requirements.install(config, [requirements.REAL_CLUSTER, requirements.GO])
