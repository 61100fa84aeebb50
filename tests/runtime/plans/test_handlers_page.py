"""docs/handlers.md: its examples run, and every option and answer of a handler stands on it."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import framework
from framework.declare.decorator import Consumer
from framework.model import retrying
from framework.testing import Harness

PAGE = (Path(__file__).parents[3] / "docs" / "handlers.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TRIED: dict[str, tuple[list[str], dict[str, int]]] = {
    "bill": (['{"number": "1", "cents": 5}', "nonsense"], {"handled": 1, "dead_lettered": 1}),
    "refund": (
        ['{"cents": 5}', '{"cents": 0}', '{"cents": -5}'],
        {"handled": 1, "dropped": 1, "dead_lettered": 1},
    ),
    "call": (["x"], {"retry": 3, "dropped": 1}),
    "encode": (["one"], {"handled": 1}),
    "receive": (["1", "2"], {"handled": 2}),
    "receipt": (['{"number": "7", "cents": 5}', '{"number": "8", "cents": 0}'], {"handled": 2}),
    "book": (['{"cents": 5}', '{"cents": 5}'], {"handled": 1, "dropped": 1}),
    "move": (["x"], {"handled": 1}),
    "convert": (['{"cents": 5}'], {"handled": 1}),
    "quote": (['{"cents": 5}'], {"handled": 1}),
    "store": (['{"sensor": "a", "value": 1}', '{"sensor": "a", "value": 2}'], {"handled": 2}),
}


@pytest.fixture(params=EXAMPLES, ids=re.findall(r"@consumer.*\n(?:@.*\n)?(?:async )?def (\w+)", PAGE))
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Consumer[..., Any]]:
    path = tmp_path / "handlers_page_example.py"
    path.write_text(request.param)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        (consumer,) = [value for value in vars(module).values() if isinstance(value, Consumer)]
        yield consumer
    finally:
        del sys.modules[path.stem]


def test_an_example_does_what_the_page_says(example: Consumer[..., Any]) -> None:
    bodies, expected = TRIED[example.spec.name]
    with Harness(example) as desk:
        for body in bodies:
            desk.send(example.spec.topic, body, keys="4711")
        assert Counter(expected) == Counter(event["event"] for event in desk.settle())


@pytest.mark.parametrize(
    "name",
    [
        *retrying._OPTIONS,
        "batch",
        "linger",
        "retry",
        "once",
        "once_store",
        "rate",
        "autostart",
        "explicit_ack",
        "undecodable_max",
    ],
)
def test_every_option_stands_on_the_page(name: str) -> None:
    assert f"`{name}" in PAGE or f"{name}=" in PAGE or f"    {name}: " in PAGE


@pytest.mark.parametrize(
    "name", ["resource", "publishes", "Ack", "RetryLater", "DeadLetter", "Drop", "Suspend", "BatchFailed", "Delivery"]
)
def test_every_answer_stands_on_the_page(name: str) -> None:
    assert name in framework.__all__
    assert f"`{name}" in PAGE or f"{name}(" in PAGE
