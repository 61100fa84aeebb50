"""The `story` fixture: `async def` tests that take it are told on a cluster of their own, in virtual time."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell


class Stage:
    """What the fixture hands over until the test runs: the cluster on which the story will be told."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Any:
    """A Story; the test that takes it must be `async def`. `@pytest.mark.seed(7)` chooses its seed."""
    marker = request.node.get_closest_marker("seed")
    return Stage(Cluster(int(marker.args[0]) if marker else 0, apps=0))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that has a stage on that stage's loop; others as usual."""
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    found = next(((name, each) for name, each in arguments.items() if isinstance(each, Stage)), None)
    if found is None:
        return None
    name, stage = found
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        pytest.fail(f"{pyfuncitem.name} takes a story, so it must be `async def`", pytrace=False)

    async def scenario(told: Story) -> None:
        await pyfuncitem.obj(**{**arguments, name: told})

    tell(scenario, stage.cluster)
    return True
