"""Allocation: which strategy divides a group's queues, and with which options, as a settings file writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Allocation:
    """`allocation: circle`, or `allocation: {consistent_hash: {virtual_nodes: 100}}`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """As they were written; the strategy checks them."""


def written(value: Any) -> Any:
    """The choice that a settings file spells; raises ValueError for anything else."""
    if isinstance(value, Allocation):
        return value
    if isinstance(value, str) and value:
        return Allocation(value)
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, options),) = value.items()
        if options is None or isinstance(options, Mapping):
            return Allocation(name, dict(options or {}))
    raise ValueError("write one strategy: its name, or {name: {option: value}}")
