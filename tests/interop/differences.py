"""Where the box answers otherwise than RocketMQ 5.5.0 on purpose: the rows of the table in docs/broker-requests.md.

Whatever differs between two plays of a scenario is a leaf with a path; one that no row explains is a fault. A row
explains the values that it names and nothing behind them: what would leave two brokers different for the rest of a
scenario is played with names of its own (`scenarios.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.interop.scenarios import ODD, Step, is_nonsense, is_odd_commit

ABSENT = "absent"
_DELIVERED = {0, 19, 20, 21}  # what a pull is answered with that was not refused
_IDS_OF_A_SEND = {".fields.queueId", ".fields.queueOffset", ".fields.recallHandle"}
NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True)
class Past:
    """What was done before a step and bears on what may differ in it."""

    written: set[int] = field(default_factory=set)
    """Queues with messages."""
    odd: set[int] = field(default_factory=set)
    """Queues for which RocketMQ keeps a commit that nobody means."""
    pulled: set[str] = field(default_factory=set)
    """Groups whose pulls brought a subscription along."""

    def add(self, step: Step, seen: Any) -> None:
        """Take a step that both brokers have played, and what RocketMQ said."""
        how = step.how
        code = (seen.get("sent") or seen).get("code")
        if code == 0 and step.kind in {"send", "batch", "hold"} and how.get("topic", "own") == "own":
            self.written.add(how["queue"])
        if code == 0 and step.kind == "commit" and is_odd_commit(how):
            self.odd.add(how["queue"])
        if step.kind == "hold" or (step.kind == "pull" and how["filter"] and how["topic"] == "own"):
            self.pulled.add("own" if step.kind == "hold" else how["group"])


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value that is not the same, and where."""

    step: Step | None
    """None for what was there in the end."""
    path: str
    real: Any
    box: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    """What stands with it in the box's answer."""
    past: Past = field(default_factory=Past)

    @property
    def kind(self) -> str:
        return self.step.kind if self.step else ""

    @property
    def how(self) -> dict[str, Any]:
        return self.step.how if self.step else {}

    @property
    def both(self) -> tuple[Any, Any]:
        return self.real, self.box


@dataclass(frozen=True, slots=True)
class Difference:
    """A row: its name, the kind of step that it is about, and which leaves of such a step it explains."""

    name: str
    kinds: frozenset[str]
    explains: Callable[[Leaf], bool]


def _row(name: str, kinds: str, explains: Callable[[Leaf], bool]) -> Difference:
    return Difference(name, frozenset(kinds.split()), explains)


def _moment_as_text(leaf: Leaf) -> bool:
    path = r"\.body\.consumeTimeSpanSet\[\]\.(min|max|consume)TimeStampStr"
    return bool(re.fullmatch(path, leaf.path)) and leaf.box == ABSENT


def _delay_of_nothing(leaf: Leaf) -> bool:
    is_delay = leaf.path == ".body.consumeTimeSpanSet[].delayTime"
    return is_delay and leaf.both == ("some", 0) and leaf.beside.get("minTimeStamp") == -1


def _odd_commit(leaf: Leaf) -> bool:
    if leaf.kind == "commit":
        return is_odd_commit(leaf.how) and leaf.path == ".code" and leaf.both == (0, 29)
    if leaf.kind == "committed":
        # What RocketMQ kept is what it then answers with, below 0 as if there were nothing.
        is_told = leaf.how["group"] == ODD and leaf.how["queue"] in leaf.past.odd
        return is_told and ((leaf.path == ".code" and leaf.both == (0, 22)) or leaf.path == ".fields.offset")
    if not leaf.past.odd or leaf.path != ".body.groupList" or ABSENT in leaf.both:
        return False
    more = [group for group in leaf.real if group not in leaf.box]
    return len(more) == 1 and f"-{ODD}-" in more[0] and set(leaf.box) < set(leaf.real)


def _nonsense(leaf: Leaf) -> bool:
    if not is_nonsense(leaf.how):
        return False
    refusal = 23 if leaf.how["filter"][1] == "SQL92" else 1
    is_refused = leaf.path == ".code" and leaf.real in _DELIVERED and leaf.box == refusal
    return is_refused or bool(leaf.box == ABSENT)


def _remembered(leaf: Leaf) -> bool:
    return (
        leaf.path.startswith(".body.subscriptionData") and leaf.box == ABSENT and leaf.how["group"] in leaf.past.pulled
    )


def _no_queue(leaf: Leaf) -> bool:
    if leaf.kind == "unwritten":
        return leaf.path == ".places.code" and leaf.both == (0, 1)
    is_written = leaf.how["topic"] == "own" and leaf.how["queue"] in leaf.past.written
    return not is_written and leaf.path == ".code" and leaf.both == (0, 1)


def _sealed(leaf: Leaf) -> bool:
    return leaf.both == (0, 16) if leaf.path == ".code" else leaf.path in _IDS_OF_A_SEND and leaf.box == ABSENT


DIFFERENCES = (
    _row(
        "flags of units", "pull hold reset_late unwritten",
        lambda leaf: bool(re.search(r"\.fields\.(group|topic)SysFlag$", leaf.path)) and leaf.both == ("0", ABSENT),
    ),
    _row("moments as text", "time_span", _moment_as_text),
    _row("delay of nothing read", "time_span", _delay_of_nothing),
    _row("odd commits", "commit committed groups_of_topic", _odd_commit),
    _row("unknown filters", "pull", _nonsense),
    _row("subscriptions of pulls", "subscription", _remembered),
    _row("unwritten queues", "places unwritten", _no_queue),
    _row("topics that are not writable", "sealed", _sealed),
    _row(
        "short heartbeats", "brief",
        lambda leaf: leaf.path == ".fields.IS_SUB_CHANGE" and leaf.both == ("false", "true"),
    ),
    _row(
        "commits on the way to a reset", "reset_late",
        lambda leaf: leaf.path == ".then.fields.offset" and leaf.box == "0",
    ),
)  # fmt: skip
NAMES = frozenset(row.name for row in DIFFERENCES)


def unexplained(
    steps: tuple[Step, ...], real: list[tuple[str, Any]], box: list[tuple[str, Any]]
) -> tuple[list[str], set[str]]:
    """What no row explains, in words; and the rows that were met."""
    met: set[str] = set()
    faults: list[str] = []
    past = Past()
    for index, ((name, theirs), (_, ours)) in enumerate(zip(real, box, strict=True)):
        step = steps[index - 1] if 0 < index <= len(steps) else None
        for path, a, b, beside in leaves(theirs, ours):
            leaf = Leaf(step, path, a, b, beside, past)
            row = next((row for row in DIFFERENCES if leaf.kind in row.kinds and row.explains(leaf)), None)
            if row is None:
                faults.append(f"{name}{path or ''}: RocketMQ {str(a)[:200]}, the box {str(b)[:200]}")
            else:
                met.add(row.name)
        if step is not None:
            past.add(step, theirs)
    return faults, met


def leaves(
    real: Any, box: Any, path: str = "", beside: Mapping[str, Any] = NOTHING
) -> Iterator[tuple[str, Any, Any, Mapping[str, Any]]]:
    """Where two views differ. What the box lacks altogether is taken apart, too: a row names each value it means."""
    if isinstance(real, dict) and isinstance(box, dict):
        for name in sorted({*real, *box}):
            yield from leaves(real.get(name, ABSENT), box.get(name, ABSENT), f"{path}.{name}", box)
    elif isinstance(real, dict) and box == ABSENT:
        for name in sorted(real):
            yield from leaves(real[name], ABSENT, f"{path}.{name}")
    elif isinstance(real, list) and isinstance(box, list) and len(real) == len(box):
        for theirs, ours in zip(real, box, strict=True):
            yield from leaves(theirs, ours, f"{path}[]")
    elif real != box:
        yield path, real, box, beside
