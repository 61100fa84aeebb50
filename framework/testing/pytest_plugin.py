"""For pytest, which finds it where framework-app is installed: fixtures for applications and plugins.

    def test_a_declined_card_is_tried_again(harness):
        desk = harness("example_app")
        desk.send("orders", '{"number": "1", "cents": 2500}', tags="created")

        assert ["retry", "handled"] == [event["event"] for event in desk.settle()]

Nothing of the framework is imported before a test asks for one of them, and tests that ask for none are left alone. A
marker `@pytest.mark.seed(7)` chooses the seed of a harness; without it the seed is 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from framework.testing.harness import Harness


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "seed(number): of the framework's harness; 0 without it")


class _Desks:
    """What the `harness` fixture is: call it as `Harness`, as often as the test needs one."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._open = ExitStack()
        self.error: BaseException | None = None
        """What the test raised: an application that was left as it was is no second failure."""

    def __call__(self, app: Any, *others: Any, **options: Any) -> Harness:
        from framework.testing.harness import Harness

        if others:
            raise TypeError("harness: give several handlers as one list: harness([bill, remind])")
        return self._open.enter_context(Harness(app, **{"seed": self._seed, **options}))

    def close(self) -> None:
        """The last one first. In order, they drain; what broke down inside is an error then."""
        error = self.error
        self._open.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Iterator[_Desks]:
    """`harness(app, settings=..., plugins=...)`: a running `framework.testing.Harness`, which ends with the test."""
    desks = _Desks(_seed(request))
    yield desks
    desks.close()


@pytest.fixture
def virtual_time() -> Callable[[Any], Any]:
    """`virtual_time(coroutine)`: its result; what it sleeps, and its time-outs, pass at once. For one's own parts."""
    from framework.testing.sim.virtual_loop import VirtualLoop, run_on

    return lambda coroutine: run_on(VirtualLoop(), coroutine)


def _seed(request: pytest.FixtureRequest) -> int:
    marker = request.node.get_closest_marker("seed")
    return int(marker.args[0]) if marker else 0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tell the desks how a test ended that has some; others run as usual."""
    if "harness" not in pyfuncitem.fixturenames:
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    desks = next((each for each in arguments.values() if isinstance(each, _Desks)), None)
    if desks is None:
        return None
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pytest.fail(f"{pyfuncitem.name} takes the harness, which has a loop of its own: write `def`", pytrace=False)
    try:
        pyfuncitem.obj(**arguments)
    except BaseException as error:
        desks.error = error
        raise
    return True
