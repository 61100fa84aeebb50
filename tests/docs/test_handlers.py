"""Every Python block of the pages runs, and each handler in it does what its page says."""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from framework import Consumer, Message
from framework.testing import Harness
from tests.docs.blocks import PAGES, blocks, page_id

RUN_ELSEWHERE = {
    "handlers": "tests/runtime/plans/test_handlers_page.py",
    "plugins": "tests/docs/test_plugins_page.py",
    "testing": "tests/testing/test_pytest_plugin.py",
    **dict.fromkeys(("spark", "spark-handlers", "spark-sink"), "plugins/spark/tests/test_spark_docs.py"),
    "reliability": "tests/scenarios/test_epochs.py",
    "plugins/outbox/README": "plugins/outbox/tests",
    "README": "tests/docs/test_first_steps.py",
    "tutorial": "tests/docs/test_first_steps.py",
    "howto/traces": "plugins/otel/tests/test_otel_page.py",
    "howto/web": "tests/docs/test_frameworks.py",
    "howto/plugin": "tests/docs/test_frameworks.py",
    "ordering": "tests/docs/test_fragments.py",
    "producing": "tests/docs/test_fragments.py",
    "transactions": "tests/docs/test_fragments.py",
    "broadcasting": "tests/docs/test_fragments.py",
    "plugins/spark/README": "plugins/spark/tests/test_spark_docs.py",
    "howto/spark": "plugins/spark/tests/test_spark_docs.py",
}
"""Pages whose Python has a test of its own."""
ORDER_KEY = "__SHARDINGKEY"
Delivered = list[str | Message]
TRIED: dict[str, dict[str, tuple[Delivered, dict[str, int]]]] = {
    "howto/retries": {
        "bill": (
            [
                '{"number": "1", "cents": 5, "card": "ok"}',
                '{"number": "2", "cents": 5, "card": "stolen"}',
                '{"number": "3", "cents": -5, "card": "ok"}',
                '{"number": "4", "cents": 5, "card": "locked"}',
                '{"number": "5", "cents": 5}',
            ],
            {"handled": 1, "dead_lettered": 4, "retry": 10},
        )
    },
    "howto/order": {
        "move": ([Message("stock", step, properties={ORDER_KEY: "7"}) for step in ("in", "out")], {"handled": 2})
    },
    "howto/idempotence": {
        "book": (['{"number": "1", "cents": 5}'] * 2, {"handled": 2}),
        "write": (
            [Message("shipped", '{"customer": "ana"}', keys="1"), Message("shipped", '{"customer": "ana"}', keys="1")],
            {"handled": 1, "dropped": 1},
        ),
    },
    "howto/batches": {
        "save": (
            ['{"sensor": "a", "value": 1}', '{"sensor": "a", "value": 2}', '{"sensor": "b"}'],
            {"handled": 2, "dead_lettered": 1},
        )
    },
    "howto/publish": {
        "receipt": (['{"number": "7", "cents": 5}', '{"number": "8", "cents": 0}'], {"handled": 2}),
    },
    "howto/long-work": {"encode": (["one\ntwo"], {"handled": 1})},
    "howto/rate": {"book": (['{"busy": false}'], {"handled": 1})},
    "deploy/proxy": {"bill": (['{"number": "1"}'], {"handled": 1})},
    "operate/dead-letters": {"bill": (['{"card": "4711"}'], {"handled": 1})},
    "migrate/java": {
        "bill": ([Message("orders", '{"number": "1", "locked": false}', tags="paid")], {"handled": 1}),
    },
    "migrate/rocketmq-client-python": {"bill": ([Message("orders", b"\xff", tags="paid")], {"handled": 1})},
    "migrate/grpc": {"bill": ([Message("orders", '{"number": "1"}', tags="paid")], {"handled": 1})},
    "migrate/celery": {"send_mail": (['{"address": "ana@example.org"}'], {"handled": 1})},
}


@contextmanager
def modules_of(page: Path, folder: Path) -> Iterator[dict[str, ModuleType]]:
    """The page's Python blocks as modules, by name, in a working directory of their own."""
    loaded = {}
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        for number, block in enumerate(blocks(page, "python")):
            name = Path(block.name).stem or f"block_{number}_of_{page.stem.replace('-', '_')}"
            if block.name.startswith("test_"):
                continue
            (folder / f"{name}.py").write_text(block.text)
            loaded[name] = importlib.import_module(name)
        yield loaded
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if name in loaded or name.partition(".")[0] in loaded:
                del sys.modules[name]


def consumers_of(modules: dict[str, ModuleType]) -> list[Consumer[..., Any]]:
    return [value for module in modules.values() for value in vars(module).values() if isinstance(value, Consumer)]


PAGES_HERE = [page for page in PAGES if blocks(page, "python") and page_id(page) not in RUN_ELSEWHERE]


@pytest.mark.parametrize("page", PAGES_HERE, ids=page_id)
def test_a_page_s_handlers_do_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = TRIED.get(page_id(page), {})
    with modules_of(page, tmp_path) as modules:
        consumers = consumers_of(modules)
        assert sorted(expected) == sorted(consumer.spec.name for consumer in consumers)
        for consumer in consumers:
            bodies, counts = expected[consumer.spec.name]
            if not bodies:
                continue
            with Harness(consumer) as desk:
                for body in bodies:
                    if isinstance(body, Message):
                        desk.send(body)
                    else:
                        desk.send(consumer.spec.topic, body)
                assert Counter(counts) == Counter(event["event"] for event in desk.settle())


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_page_with_python_has_a_test_that_runs_it(page: Path) -> None:
    elsewhere = RUN_ELSEWHERE.get(page_id(page))
    if elsewhere is not None:
        root = Path(__file__).parents[2]
        assert (root / elsewhere).exists()
        text = "".join(
            path.read_text()
            for path in ([root / elsewhere] if elsewhere.endswith(".py") else (root / elsewhere).glob("*.py"))
        )
        assert re.search(rf"{page.name}|{page.stem}", text)
