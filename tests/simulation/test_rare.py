"""Rare made common: limits drawn small, and marks that stretch a moment or take the rare way."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

import framework
from framework import marks
from framework.broker.settings import BrokerSettings
from framework.core import limits
from framework.settings.consumers import ConsumerSettings
from framework.settings.schema import ClusterSettings, ProcessSettings
from framework.testing.sim.streams import Stream
from tests.simulation.cluster import Cluster
from tests.simulation.rare.bends import RunBends
from tests.simulation.rare.rare_marks import OUTBOX, RARELY, STRETCHED, Active, RareMarks
from tests.simulation.rare.small_limits import IN_CODE, LIMITS, WINDOWS, SmallLimits, small_in_code
from tests.simulation.simulation import draw
from tests.simulation.workload import GroupLoad, Workload

HOME = Path(framework.__file__).parent
PLUGINS = HOME.parent / "plugins"


def texts_of_code() -> list[tuple[Path, str]]:
    paths = [*HOME.rglob("*.py"), *PLUGINS.glob("*/framework_*/*.py")]
    return [(path, path.read_text(encoding="utf-8")) for path in paths if "testing" not in path.parts]


def in_code(function: str) -> list[str]:
    """The names that the marks of the code have, each as often as it stands there."""
    mark = re.compile(rf"marks\.{function}\(\s*[\"']([^\"']+)[\"']")
    return [name for _, text in texts_of_code() for name in mark.findall(text)]


def test_every_rare_mark_of_the_code_is_listed_with_what_it_does() -> None:
    assert {*STRETCHED, *RARELY, *OUTBOX} == {*in_code("stretched"), *in_code("rarely")}
    assert not set(STRETCHED) & set(in_code("rarely"))
    assert not set(RARELY) & set(in_code("stretched"))


def stretches_apart(text: str) -> list[str]:
    """Names of stretches that do not stand beside another `await`, in the order of the statements."""
    found = []
    for body in bodies(ast.parse(text)):
        for index, step in enumerate(body):
            if (name := stretch_in(step)) is not None:
                beside = (*body[max(index - 1, 0) : index], *body[index + 1 : index + 2])
                if not any(awaits(each) for each in beside):
                    found.append(name)
    return found


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(body := getattr(node, name, None), list):
                yield body


def stretch_in(step: ast.stmt) -> str | None:
    if isinstance(step, ast.Expr) and isinstance(step.value, ast.Await) and isinstance(step.value.value, ast.Call):
        call = step.value.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == "stretched":
            assert isinstance(call.args[0], ast.Constant)
            return str(call.args[0].value)
    return None


def awaits(step: ast.stmt) -> bool:
    return stretch_in(step) is None and any(isinstance(node, ast.Await | ast.AsyncWith) for node in ast.walk(step))


def test_a_stretch_stands_beside_an_await_that_could_take_as_long() -> None:
    """Else it would part what reads a state from what changes it, which the shipped code never does."""
    for path in (*HOME.rglob("*.py"), *PLUGINS.glob("*/framework_*/*.py")):
        if "stretched(" in (text := path.read_text(encoding="utf-8")):
            assert [] == stretches_apart(text), path

    assert ["a"] == stretches_apart(
        "async def f():\n    x = 1\n    await marks.stretched('a')\n    x = 2\n    await g()"
    )
    assert [] == stretches_apart("async def f():\n    x = 1\n    await marks.stretched('a')\n    await g()")


def test_every_limit_of_the_code_that_may_be_small_is_drawn() -> None:
    drawn = {name for small in LIMITS if small.where == "code" for choice in small.choices for name in choice}
    assert set(IN_CODE) == drawn
    for (module, name), texts in ((place, texts_of_code()) for place in IN_CODE.values()):
        assert isinstance(getattr(module, name), int | float)
        copied = re.compile(rf"import .*\b{name}\b")
        assert not [path for path, text in texts if copied.search(text)], f"{name} would stay as it is there"


def test_every_small_limit_is_one_that_there_is() -> None:
    known = {
        "run": {field.name for field in fields(Workload)},
        "load": {field.name for field in fields(GroupLoad)},
        "group": set(ConsumerSettings.model_fields),
        "app": set(ProcessSettings.model_fields),
        "cluster": set(ClusterSettings.model_fields),
        "broker": {field.name for field in fields(BrokerSettings)},
    }
    for small in LIMITS:
        for choice in small.choices:
            assert small.where == "code" or set(choice) <= known[small.where]
    assert len({small.name for small in LIMITS}) == len(LIMITS)


def test_plans_draw_each_limit_and_each_mark_and_say_so() -> None:
    plans = [draw(seed) for seed in range(300)]
    assert {small.name for small in LIMITS} == {name for plan in plans for name in plan.workload.small.names}
    assert {*STRETCHED, *RARELY} == {name for plan in plans for name in plan.workload.rare.names}
    assert 100 < sum(not plan.workload.small.drawn for plan in plans) < 250
    for plan in plans:
        assert f"small={plan.workload.small} rare={plan.workload.rare}" in str(plan)
        hard = {small.name for small in LIMITS if not small.in_calm} | set(RARELY)
        assert not any(load.by_hand for load in plan.workload.groups) or not WINDOWS & set(plan.workload.small.names)
        has_tags = any(load.tags for load in plan.workload.groups)
        assert not has_tags or "standstill" not in plan.workload.small.names
        assert not plan.is_calm or not hard & {*plan.workload.small.names, *plan.workload.rare.names}


def test_small_limits_reach_the_settings() -> None:
    small = SmallLimits(
        (
            ("window", "group", (("cache_count", 2),)),
            ("budget", "app", (("budget", 1_000),)),
            ("request", "cluster", (("request_timeout", 600),)),
            ("broker's pull", "broker", (("pull_count_max", 3),)),
        )
    )
    cluster = Cluster(1, workload=Workload(small=small))
    assert 2 == cluster.settings.consumers["billing"].cache_count
    assert 1_000 == cluster.settings.app.budget
    assert 600 == cluster.settings.cluster.request_timeout
    assert "cache_count=2,budget=1000,request_timeout=600,pull_count_max=3" == str(small)
    assert ["window", "request", "broker's pull"] == small.without("budget").names


def bends(rare: RareMarks, *, is_healed: Callable[[], bool] = lambda: False) -> tuple[RunBends, list[str]]:
    told: list[str] = []
    workload = Workload(rare=rare)
    return RunBends(workload, Stream, is_healed, lambda name, what: told.append(f"{name} {what}")), told


def test_a_mark_that_is_awake_does_what_it_does_until_all_is_healed() -> None:
    is_over = False
    run, told = bends(RareMarks((Active("a", 1.0, 0.0),)), is_healed=lambda: is_over)
    assert run.rarely("a")
    assert not run.rarely("b")
    assert run.stretch("b") is None
    pause = run.stretch("a")
    assert pause is not None
    asyncio.run(awaited(pause))
    is_over = True
    assert not run.rarely("a")
    assert run.stretch("a") is None
    assert ["a done", "a for 0.000s"] == told


async def awaited(pause: Awaitable[None]) -> None:
    await pause


def test_how_often_a_mark_does_it_is_drawn() -> None:
    run, _ = bends(RareMarks((Active("a", 0.3, 0.0),)))
    assert 200 < sum(run.rarely("a") for _ in range(1_000)) < 400


def test_a_limit_is_small_where_it_was_drawn() -> None:
    with small_in_code(SmallLimits((("flush", "code", (("flush period", 5),)),))):
        assert (5, 30_000) == (limits.FLUSH_MS, limits.RETELL_MS)
    assert 1_000 == limits.FLUSH_MS


def test_outside_a_simulation_marks_do_nothing() -> None:
    marks.install()
    assert not marks.rarely("anything")
    stretch = marks.stretched("anything")
    with pytest.raises(StopIteration):
        stretch.send(None)  # over without a step of the event loop


def test_limits_and_marks_can_be_taken_from_a_plan() -> None:
    rare = RareMarks((Active("a", 0.3, 1.0), Active("b c", 1.0, 4.0)))
    assert "a@0.3x1s,b-c@1x4s" == str(rare)
    assert RareMarks((Active("a", 0.3, 1.0),)) == rare.without("b c")
    assert "none" == str(RareMarks()) == str(SmallLimits())
    assert Workload() == replace(Workload(rare=rare), rare=RareMarks())
