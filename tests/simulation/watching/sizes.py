"""Sizes: how much a process holds in each of its tables, counted from outside by walking its objects.

A table is a dictionary, list, deque, set or counter that is an attribute of an object of the framework; it is named
after the class and the attribute, and those of all objects of a class count together. The product has no code for this:
a table that somebody adds is counted from its first day. It only reads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from types import MemberDescriptorType
from typing import Any

TABLES = (dict, list, deque, set)
OURS = "framework."
NOT_OURS = "framework.testing"
_SLOTS: dict[type, tuple[str, ...]] = {}


def sizes_of(*roots: object, stop: Iterable[object] = ()) -> Counter[str]:
    """`Class.attribute` -> how many entries, over everything that can be reached from these objects but `stop`."""
    found: Counter[str] = Counter()
    seen = {id(each) for each in stop}
    waiting: list[object] = [*roots]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        kind = type(each)
        if kind in _TABLE_KINDS or isinstance(each, TABLES):
            _look_into(each, waiting)
        elif _is_ours(kind):
            name = kind.__name__
            for attribute, value in _attributes(each, kind):
                value_kind = type(value)
                if value_kind in _PLAIN:
                    continue
                if isinstance(value, TABLES):
                    if id(value) not in seen:
                        found[f"{name}.{attribute}"] += len(value)
                    waiting.append(value)
                elif value_kind is tuple or _is_ours(value_kind):
                    waiting.append(value)
        elif kind is tuple:
            _look_into(each, waiting)
    return found


_TABLE_KINDS = frozenset(TABLES)
_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
_OURS: dict[type, bool] = {}


def _is_ours(kind: type) -> bool:
    known = _OURS.get(kind)
    if known is None:
        module = kind.__module__
        known = module.startswith(OURS) and not module.startswith(NOT_OURS)
        _OURS[kind] = known
    return known


def _look_into(table: Any, waiting: list[object]) -> None:
    """Its entries, where they can hold tables: those of one kind of plain values are passed over."""
    if isinstance(table, dict):
        for key, value in table.items():
            if type(key) not in _PLAIN and (type(key) is tuple or _is_ours(type(key))):
                waiting.append(key)
            if type(value) not in _PLAIN:
                waiting.append(value)
        return
    waiting.extend(each for each in table if type(each) not in _PLAIN)


def _attributes(each: object, kind: type) -> Iterable[tuple[str, object]]:
    slots = _SLOTS.get(kind)
    if slots is None:
        slots = _SLOTS[kind] = tuple(
            name
            for base in kind.__mro__
            for name, value in vars(base).items()
            if isinstance(value, MemberDescriptorType)
        )
    for name in slots:
        if name.startswith("__pydantic"):  # which fields were given: as many as a model has
            continue
        try:
            yield name, getattr(each, name)
        except AttributeError:
            continue
    own = getattr(each, "__dict__", None)
    if own:
        yield from own.items()
