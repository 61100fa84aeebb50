"""Where the box answers otherwise than RocketMQ 5.5.0 on purpose: the rows of the table in docs/broker.md.

Whatever differs between two plays of a scenario is a leaf with a path; one that no row explains is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.interop.scenarios import Step, is_nonsense

ABSENT = "absent"
_PROGRESS = ("committed", "progress", "topics_of_group", "groups_of_topic", "time_span", "pull")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value that is not the same, and where."""

    step: Step | None
    """None for what was there in the end."""
    path: str
    real: Any
    box: Any

    @property
    def kind(self) -> str:
        return self.step.kind if self.step else ""

    @property
    def how(self) -> dict[str, Any]:
        return self.step.how if self.step else {}


@dataclass(frozen=True, slots=True)
class Difference:
    """A row: its name, and which leaves it explains. `after` names a row that was met before, or a kind of step."""

    name: str
    explains: Callable[[Leaf], bool]
    after: str | None = None


DIFFERENCES = (
    Difference(
        "flags of units",
        lambda leaf: bool(re.search(r"\.(group|topic)SysFlag$", leaf.path)) and (leaf.real, leaf.box) == ("0", ABSENT),
    ),
    Difference("moments as text", lambda leaf: leaf.kind == "time_span" and leaf.path.endswith("Str")),
    Difference(
        "delay of nothing read",
        lambda leaf: leaf.kind == "time_span" and leaf.path.endswith("delayTime") and not leaf.box,
    ),
    Difference(
        "nothing committed yet",
        lambda leaf: leaf.kind == "committed" and leaf.path in {".code", ".fields"} and leaf.box in (22, ABSENT),
    ),
    Difference("odd commits", lambda leaf: leaf.kind == "commit" and (leaf.real, leaf.box) == (0, 29)),
    Difference("odd commits", lambda leaf: leaf.kind in _PROGRESS, after="odd commits"),
    Difference(
        "leaving makes no group", lambda leaf: leaf.kind == "commit" and (leaf.real, leaf.box) == (0, 26), after="leave"
    ),
    Difference("leaving makes no group", lambda leaf: leaf.kind in _PROGRESS, after="leaving makes no group"),
    Difference("filters nobody understands", lambda leaf: leaf.kind == "pull" and is_nonsense(leaf.how)),
    Difference(
        "filters nobody understands", lambda leaf: leaf.kind in _PROGRESS, after="filters nobody understands"
    ),
    Difference("subscriptions of pulls", lambda leaf: leaf.kind == "subscription" and leaf.box == ABSENT),
    Difference("pull offsets", lambda leaf: leaf.kind == "progress" and leaf.path.endswith("pullOffset")),
    Difference("queues nobody wrote to", lambda leaf: leaf.kind == "places" and (leaf.real, leaf.box) == (0, 1)),
    Difference("filters in queryCq", lambda leaf: leaf.kind == "places" and leaf.path.endswith(".eval")),
)  # fmt: skip


def unexplained(
    steps: tuple[Step, ...], real: list[tuple[str, Any]], box: list[tuple[str, Any]]
) -> tuple[list[str], set[str]]:
    """What no row explains, in words; and the rows that were met."""
    met: set[str] = set()
    before: set[str] = set()
    faults: list[str] = []
    for index, ((name, theirs), (_, ours)) in enumerate(zip(real, box, strict=True)):
        step = steps[index - 1] if 0 < index <= len(steps) else None
        for path, a, b in leaves(theirs, ours):
            leaf = Leaf(step, path, a, b)
            row = next((row for row in DIFFERENCES if _holds(row, leaf, met | before)), None)
            if row is None:
                faults.append(f"{name}{path or ''}: RocketMQ {str(a)[:200]}, the box {str(b)[:200]}")
            else:
                met.add(row.name)
        if step is not None:
            before.add(step.kind)
    return faults, met


def _holds(row: Difference, leaf: Leaf, before: set[str]) -> bool:
    return (row.after is None or row.after in before) and row.explains(leaf)


def leaves(real: Any, box: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two views differ."""
    if isinstance(real, dict) and isinstance(box, dict):
        for name in sorted({*real, *box}):
            yield from leaves(real.get(name, ABSENT), box.get(name, ABSENT), f"{path}.{name}")
    elif isinstance(real, list) and isinstance(box, list) and len(real) == len(box):
        for theirs, ours in zip(real, box, strict=True):
            yield from leaves(theirs, ours, f"{path}[]")
    elif real != box:
        yield path, real, box
