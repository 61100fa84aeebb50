"""What takes long begins first, then what one process must run together: else one works alone at the end."""

from __future__ import annotations

import pytest

FIRST = ("long", "xdist_group")
"""Marks, in turn."""


def turn(item: pytest.Item) -> int:
    return next((place for place, mark in enumerate(FIRST) if item.get_closest_marker(mark)), len(FIRST))


@pytest.hookimpl(trylast=True)  # when the order has been drawn
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=turn)
