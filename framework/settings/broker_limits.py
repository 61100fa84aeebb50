"""Which limits of the built-in broker can be set, and their bounds: `--limit NAME=VALUE` and `cluster.embedded_limits`.

Knows the names that users write. Imports no pydantic, because the broker starts without it. The broker decides what it
answers beyond a limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from framework.errors import nearest, shorten

_SIZE = re.compile(r"(\d{1,15})(B|KiB|MiB|GiB)")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MIB, _GIB = 1 << 20, 1 << 30


class _Limit(NamedTuple):
    setting: str
    """Its field in BrokerSettings."""
    least: int
    most: int
    is_size: bool = False


LIMITS = {
    "connections": _Limit("channels_max", 1, 65_536),
    "waiting-pulls": _Limit("waiting_pulls_max", 1, 1_000_000),
    "waiting-bytes": _Limit("waiting_bytes_max", 64 << 10, 64 * _GIB, is_size=True),
    "heartbeat-bytes": _Limit("heartbeat_bytes_max", 64 << 10, 64 * _GIB, is_size=True),
    "writes": _Limit("writes_max", 1, 1_000_000),
    "write-bytes": _Limit("write_bytes_max", _MIB, 64 * _GIB, is_size=True),
    "answer-bytes": _Limit("unread_bytes_max", _MIB, 64 * _GIB, is_size=True),
    "frame-bytes": _Limit("frames_bytes_max", _MIB, 64 * _GIB, is_size=True),
    "connection-bytes": _Limit("unsent_bytes_max", 64 << 10, 64 * _GIB, is_size=True),
    # With its header it must fit into a frame, and those have 16 MiB.
    "message": _Limit("body_bytes_max", 1, 15 * _MIB, is_size=True),
    "topics": _Limit("topics_max", 1, 1_000_000),
    "groups": _Limit("groups_max", 1, 1_000_000),
    "queues": _Limit("queues_max", 1, 10_000_000),
    "offsets": _Limit("offsets_max", 1, 10_000_000),
}


def limit(text: str) -> tuple[str, int]:
    """`NAME=VALUE`: the field that it is about, and what it is to be; ValueError with what is wrong."""
    name, _, value = text.partition("=")
    return _chosen(name, value, text)


def limits(values: Mapping[str, str]) -> dict[str, int]:
    """Values by field; ValueError with what is wrong."""
    return dict(_chosen(name, value, f"{name}: {value}") for name, value in values.items())


def _chosen(name: str, value: str, text: str) -> tuple[str, int]:
    known = LIMITS.get(name)
    if known is None:
        there_are = nearest(name, LIMITS) or f"; there are: {', '.join(LIMITS)}"
        raise ValueError(f"there is no limit {shorten(name)}{there_are}")
    found = _number(value, is_size=known.is_size)
    if found is None or not known.least <= found <= known.most:
        wanted = "a size such as 4MiB" if known.is_size else "a whole number"
        raise ValueError(
            f"{shorten(text)}: {name} is {wanted}, from {_shown(known.least, known)} to {_shown(known.most, known)}"
        )
    return known.setting, found


def _number(text: str, *, is_size: bool) -> int | None:
    if not is_size:
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None
    found = _SIZE.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def _shown(count: int, of: _Limit) -> str:
    if not of.is_size:
        return f"{count:,}"
    unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if count % _UNITS[unit] == 0)
    return f"{count // _UNITS[unit]}{unit}"
