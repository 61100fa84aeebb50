"""For pytest: async tests that take a `story` or a `harness` run in virtual time. Import both names into a conftest:

    from framework.testing.pytest_plugin import pytest_pyfunc_call, story

A marker `@pytest.mark.seed(7)` chooses the seed of a story; without it the seed is 0.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from framework.testing.cluster import Cluster
from framework.testing.story import Story


class _Stage:
    """What the fixture hands over until the test runs: the cluster on which the story will be told."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Any:
    """A Story; the test that takes it must be `async def`."""
    marker = request.node.get_closest_marker("seed")
    return _Stage(Cluster(marker.args[0] if marker else 0, apps=0))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test that has a stage on that stage's loop."""
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    stages = [name for name, value in arguments.items() if isinstance(value, _Stage)]
    if not stages or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    stage: _Stage = arguments[stages[0]]

    async def play(cluster: Cluster) -> None:
        await pyfuncitem.obj(**{**arguments, stages[0]: Story(cluster)})

    stage.cluster.run(play)
    return True
