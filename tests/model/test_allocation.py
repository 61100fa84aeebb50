"""How settings may name a strategy."""

from __future__ import annotations

import pytest

from framework.model.allocation import Allocation, written


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("circle", Allocation("circle")),
        ({"circle": None}, Allocation("circle")),
        ({"circle": {}}, Allocation("circle")),
        ({"consistent_hash": {"virtual_nodes": "3"}}, Allocation("consistent_hash", {"virtual_nodes": "3"})),
        (Allocation("circle"), Allocation("circle")),
    ],
)
def test_a_strategy_is_a_name_with_or_without_options(value: object, expected: Allocation) -> None:
    assert expected == written(value)


@pytest.mark.parametrize(
    "value", ["", None, 5, [], ["circle"], {}, {"a": {}, "b": {}}, {"circle": "x"}, {"circle": ["x"]}]
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="write one strategy: its name"):
        written(value)
