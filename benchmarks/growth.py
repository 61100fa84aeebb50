"""What a message costs as queues, groups, the backlog and workers grow, and what queues without messages cost.

    python -m benchmarks.growth --part queues,groups,backlog,workers,idle --runs 3

One real broker; each size is a topic of its own and each run a new group. `queues`: 8 to 1,024 with the same messages;
`groups`: 1 to 50 in one process, each of which consumes all of it; `backlog`: 10 to 10,000,000 messages in 8 queues;
`workers`: 1 and 2 processes of `run --workers`; Java's push consumer beside queues and backlogs. `idle`: processor time
a minute of a group that owns so many queues and waits. Processor time is read in steps of 10 ms, so backlogs below
100,000 say a time and no cost. Exit 0: measured; 1: something was lost or repeated; 3: Java or the cluster is not to
be had.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from benchmarks.arguments import positive
from benchmarks.backlog import Field, Filler, consumed, started
from benchmarks.consumers import SHARED
from benchmarks.on_a_cluster import on_a_cluster
from benchmarks.process_tree import Watch, pss_bytes
from benchmarks.turns import Sample, in_turns, medians, table, write_json
from tests.interop.cluster import Cluster
from tests.interop.processes import Nursery

COST_LEAST = 100_000
"""Fewer messages are over before a clock of 10 ms says what they cost."""
SETTLE_S = 15
"""Until routes, heartbeats and commits of a start are behind an idle group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How far each part goes."""

    messages: int = 1_000_000
    queues: Sequence[int] = (8, 64, 256, 1_024)
    groups: Sequence[int] = (1, 10, 50)
    group_messages: int = 100_000
    backlog: Sequence[int] = (10, 1_000, 100_000, 1_000_000, 10_000_000)
    workers: Sequence[int] = (1, 2)
    idle: Sequence[int] = (8, 1_000)
    idle_s: int = 60


QUICK = Sizes(
    messages=20_000, queues=(8, 64), groups=(1, 3), group_messages=5_000, backlog=(10, 20_000), idle=(8, 64), idle_s=5
)
PARTS = ("queues", "groups", "backlog", "workers", "idle")
WITH_JAVA = ("queues", "backlog", "idle")


class Growth:
    """The topics of one cluster, each filled when it is first needed."""

    def __init__(self, filler: Filler, sizes: Sizes) -> None:
        self._filler, self._sizes = filler, sizes

    def cases(self, parts: Sequence[str]) -> list[str]:
        return [f"{part} {size}" for part in parts for size in getattr(self._sizes, part)]

    def measured(self, case: str, who: str, number: int) -> Mapping[str, float] | None:
        part, _, text = case.partition(" ")
        if who == "java" and part not in WITH_JAVA:
            return None
        return self._ways[part](int(text), who, number)

    @cached_property
    def _ways(self) -> Mapping[str, Callable[[int, str, int], Mapping[str, float]]]:
        return {
            "queues": self._queues, "groups": self._groups, "backlog": self._backlog, "workers": self._workers,
            "idle": self._idle,
        }  # fmt: skip

    def _queues(self, size: int, who: str, number: int) -> Mapping[str, float]:
        field = self._field(f"queues-{size}", self._sizes.messages, size)
        return consumed(who, number, field.work, field)

    def _backlog(self, size: int, who: str, number: int) -> Mapping[str, float]:
        field = self._field(f"backlog-{size}", size, 8)
        found = consumed(who, number, field.work, field)
        if size >= COST_LEAST:
            return found
        return {"span_ms": size / found["rate"] * 1_000, "peak_memory_mb": found["peak_memory_mb"]}

    def _groups(self, size: int, who: str, number: int) -> Mapping[str, float]:
        field = self._field("groups", self._sizes.group_messages, 8)
        return consumed(who, number, replace(field.work, handler=SHARED, groups=size), field)

    def _workers(self, size: int, who: str, number: int) -> Mapping[str, float]:
        field = self._field("workers", self._sizes.messages, 8)
        return consumed(who, number, replace(field.work, handler=SHARED, workers=size), field)

    def _idle(self, size: int, who: str, number: int) -> Mapping[str, float]:
        """A batch of 100 goes to each queue at least: once all is handled, each queue was begun and pulled from."""
        field = self._field(f"idle-{size}", size * 100, size)
        side, _ = started(who, number, field.work, field)
        side.wait_reached(timeout_s=120)
        time.sleep(SETTLE_S)
        watch, seconds = Watch(side.pid), self._sizes.idle_s
        began = time.monotonic_ns()
        time.sleep(seconds)
        watch.close()
        cpu_s = watch.cpu_s(began, began + seconds * 10**9)
        memory_mb = pss_bytes(side.pid) / 1e6
        side.end()
        return {"cpu_s_a_minute": cpu_s * 60 / seconds, "memory_mb": memory_mb}

    def _field(self, topic: str, messages: int, queues: int) -> Field:
        if topic in self._filler.fields:
            return self._filler.known(topic)
        return self._filler.filled(topic, messages=messages, body=100, queues=queues)


def compared(samples: Sequence[Sample]) -> list[str]:
    """What the largest of our sizes costs, times the smallest of the same part."""
    found: dict[str, list[float]] = {}
    for row in medians(samples):
        cost = row.get("cpu_per_message_us")
        if row["who"] == "ours" and cost is not None:
            found.setdefault(row["case"].partition(" ")[0], []).append(cost)
    return [
        f"{part}: the dearest size costs {max(costs) / costs[0]:.2f}x the smallest a message (bar 1.15)"
        for part, costs in found.items()
        if len(costs) > 1 and part in {"queues", "backlog", "groups"}
    ]


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)

    def measure(cluster: Cluster, nursery: Nursery, folder: Path) -> list[Sample]:
        growth = Growth(Filler.of(cluster, nursery, folder), options.sizes)
        sides = ["java", "ours"] if options.against == "java" else ["ours"]
        return in_turns(growth.cases(options.part), sides, options.runs, growth.measured)

    def tell(samples: list[Sample]) -> None:
        print("\n".join([table(samples), *compared(samples)]))
        if options.json:
            settings = {name: value for name, value in vars(options).items() if name != "sizes"}
            write_json(options.json, "growth", samples, settings)

    return on_a_cluster(measure, tell)


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    return parts


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", choices=["java", "none"], default="java", help="the peer; default %(default)s")
    parser.add_argument("--part", type=_parts, default=list(PARTS), metavar="NAME,NAME", help="default: all")
    parser.add_argument("--runs", type=positive, default=3, metavar="R", help="of each side; default %(default)s")
    parser.add_argument("--most", type=positive, metavar="N", help="leave larger sizes out: a backlog of 10,000,000")
    parser.add_argument("--quick", action="store_true", help="one run of small sizes: whether it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    options = parser.parse_args(arguments)
    options.sizes = QUICK if options.quick else Sizes()
    if options.quick:
        options.runs = 1
    if options.most:
        sizes = options.sizes
        kept = {part: [size for size in getattr(sizes, part) if size <= options.most] for part in PARTS}
        options.sizes = replace(sizes, **kept)
    return options


if __name__ == "__main__":
    sys.exit(main())
