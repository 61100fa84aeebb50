"""For pytest, which finds it where framework-app is installed: fixtures for applications, plugins and stories.

    def test_a_declined_card_is_tried_again(harness):
        desk = harness("example_app")
        desk.send("orders", '{"number": "1", "cents": 2500}', tags="created")

        assert ["retry", "handled"] == [event["event"] for event in desk.settle()]

    async def test_a_crashed_member_s_queues_are_taken_over(story):
        a, b = await story.start_apps(2)

Nothing of the framework is imported before a test asks for one of them, and tests that ask for none are left alone. A
marker `@pytest.mark.seed(7)` chooses the seed of a harness or a story; without it the seed is 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from framework.testing.harness import Harness
    from framework.testing.swarm.cluster import Cluster

OURS = ("harness", "story", "virtual_time")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "seed(number): of the framework's harness or story; 0 without it")


class _Desks:
    """What the `harness` fixture is: call it as `Harness`, as often as the test needs one."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._open = ExitStack()
        self.error: BaseException | None = None
        """What the test raised: an application that was left as it was is no second failure."""

    def __call__(self, app: Any, **options: Any) -> Harness:
        from framework.testing.harness import Harness

        return self._open.enter_context(Harness(app, **{"seed": self._seed, **options}))

    def close(self) -> None:
        """The last one first. In order, they drain; what broke down inside is an error then."""
        error = self.error
        self._open.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)


class _Stage:
    """What the `story` fixture hands over until the test runs: the cluster on which the story will be told."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Iterator[_Desks]:
    """`harness(app, settings=..., plugins=...)`: a running `framework.testing.Harness`, which ends with the test."""
    desks = _Desks(_seed(request))
    yield desks
    desks.close()


@pytest.fixture
def virtual_time() -> Callable[[Any], Any]:
    """`virtual_time(coroutine)`: its result; what it sleeps, and its time-outs, pass at once. For one's own parts."""
    from framework.testing.sim.run import run_on
    from framework.testing.sim.virtual_loop import VirtualLoop

    return lambda coroutine: run_on(VirtualLoop(), coroutine)


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Any:
    """A Story; the test that takes it must be `async def`."""
    from framework.testing.swarm.cluster import Cluster

    return _Stage(Cluster(_seed(request), apps=0))


def _seed(request: pytest.FixtureRequest) -> int:
    marker = request.node.get_closest_marker("seed")
    return int(marker.args[0]) if marker else 0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test that has a stage on that stage's loop; others as usual."""
    if not any(name in pyfuncitem.fixturenames for name in OURS):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    desks = next((each for each in arguments.values() if isinstance(each, _Desks)), None)
    stage = next(((name, each) for name, each in arguments.items() if isinstance(each, _Stage)), None)
    is_async = inspect.iscoroutinefunction(pyfuncitem.obj)
    if stage is not None and not is_async:
        pytest.fail(f"{pyfuncitem.name} takes a story, so it must be `async def`", pytrace=False)
    if stage is not None:
        _tell(pyfuncitem.obj, arguments, *stage)
        return True
    if desks is None:
        return None
    if is_async:
        pytest.fail(f"{pyfuncitem.name} takes the harness, which has a loop of its own: write `def`", pytrace=False)
    try:
        pyfuncitem.obj(**arguments)
    except BaseException as error:
        desks.error = error
        raise
    return True


def _tell(test: Callable[..., Any], arguments: dict[str, Any], name: str, stage: _Stage) -> None:
    from framework.testing.story import Story

    async def play(cluster: Cluster) -> None:
        await test(**{**arguments, name: Story(cluster)})

    stage.cluster.run(play)
