"""The line that a dead letter names: where its author has to look."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from framework.model.death_reason import line_of
from framework.model.durations import to_ms


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
