"""The line that a dead letter names: where its author has to look."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.model.death_reason import line_of
from framework.model.durations import to_ms

ORDERS = """import json
import death_prices

def bill():
    death_prices.of({})

def read():
    json.loads("{")
"""


def raising(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("it was to raise")


def of_its_own() -> object:
    return dict[str, str]()["card"]


def of_the_standard_library() -> object:
    return json.loads("{")


def of_ours() -> object:
    return to_ms("soon")


@pytest.mark.parametrize("call", [of_its_own, of_the_standard_library, of_ours])
def test_it_is_the_innermost_of_the_author_s_own(call: Callable[[], object]) -> None:
    """Not that of a library which the handler called, and which is right about its argument."""
    assert f"tests/model/test_death_line.py:{call.__code__.co_firstlineno + 1}" == line_of(raising(call))


def test_where_the_author_wrote_none_it_is_the_innermost_there_is() -> None:
    error = raising(of_the_standard_library)
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.endswith("json/__init__.py"):
        trace = trace.tb_next

    assert line_of(error.with_traceback(trace)).startswith("json/decoder.py:")
    assert "" == line_of(None) == line_of(ValueError("never raised"))


def test_an_application_that_is_installed_as_a_package_has_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies among the libraries that it calls, as `pip install .` puts it there."""
    folder = tmp_path / "site-packages"
    for path, text in {
        "death_shop/orders.py": ORDERS,
        "death_prices/__init__.py": "def of(item):\n    return item['price']\n",
    }.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    monkeypatch.syspath_prepend(folder)
    orders = importlib.import_module("death_shop.orders")

    def called(name: str) -> Exception:
        error = raising(getattr(orders, name))
        trace = error.__traceback__
        assert trace is not None
        return error.with_traceback(trace.tb_next)  # without the line of this test

    assert "death_shop/orders.py:5" == line_of(called("bill"))
    assert "death_shop/orders.py:8" == line_of(called("read"))
