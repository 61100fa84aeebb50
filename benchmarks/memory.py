"""How much memory consumers hold while they consume: ours as one process and as several workers, beside Java's.

    python -m benchmarks.memory --messages 500000 --workers 1,2,4 --runs 5

A backlog is consumed by each side in turn, and its tree of processes is looked at four times a second. Shown is the
most that was seen together, by two counts: resident memory, and PSS, in which a page that several processes share
counts in parts. The JVM has a heap of at most 512 MB. Exit 0: measured; 1: something was lost or repeated; 3: Java or
the cluster is not to be had.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.arguments import positive, several
from benchmarks.backlog import Field, Filler, checked_end, started
from benchmarks.consumers import SHARED
from benchmarks.on_a_cluster import on_a_cluster
from benchmarks.process_tree import pss_bytes, rss_bytes
from benchmarks.turns import Sample, in_turns, medians, table, write_json
from tests.interop.cluster import Cluster
from tests.interop.processes import Nursery

LOOK_S = 0.25
BARS = {"1": 0.12, "4": 0.3}
"""Of one Java process: one of ours, and four workers together."""


class Most:
    """The most memory that a tree of processes held at one look."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.pss = self.rss = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.pss = max(self.pss, pss_bytes(self._pid))
            self.rss = max(self.rss, rss_bytes(self._pid))
            if self._closing.wait(LOOK_S):
                return


def measured(case: str, who: str, number: int, field: Field) -> Mapping[str, float] | None:
    workers = int(case)
    if who == "java" and workers > 1:
        return None
    side, work = started(who, number, replace(field.work, workers=workers), field)
    most = Most(side.pid)
    try:
        side.wait_reached(timeout_s=60 + work.total / 1000)
    finally:
        most.close()
    checked_end(who, side, work, field)
    return {"pss_mb": most.pss / 1e6, "rss_mb": most.rss / 1e6}


def compared(samples: Sequence[Sample]) -> list[str]:
    rows = {(row["who"], row["case"]): row["pss_mb"] for row in medians(samples)}
    java = rows.get(("java", "1"))
    found = []
    for (who, case), held in rows.items():
        if who == "ours" and java:
            bar = f" (bar {BARS[case]}: {'met' if held / java <= BARS[case] else 'NOT MET'})" if case in BARS else ""
            found.append(f"ours with {case} workers: {held / java:.3f}x of one Java process{bar}")
    sizes = [(int(case), held) for (who, case), held in rows.items() if who == "ours"]
    if len(sizes) > 1:
        (few, first), (many, last) = sizes[-2], sizes[-1]
        found.append(f"a further worker: {(last - first) / (many - few):.1f} MB")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)

    def measure(cluster: Cluster, nursery: Nursery, folder: Path) -> list[Sample]:
        filler = Filler.of(cluster, nursery, folder)
        field = filler.filled("memory", messages=options.messages, body=100, queues=8, handler=SHARED)
        return in_turns(
            [str(number) for number in options.workers],
            ["java", "ours"] if options.against == "java" else ["ours"],
            options.runs,
            lambda case, who, number: measured(case, who, number, field),
        )

    def tell(samples: list[Sample]) -> None:
        print("\n".join([table(samples), *compared(samples)]))
        if options.json:
            write_json(options.json, "memory", samples, vars(options))

    return on_a_cluster(measure, tell)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", choices=["java", "none"], default="java", help="the peer; default %(default)s")
    parser.add_argument("--messages", type=positive, default=500_000, metavar="N")
    parser.add_argument("--workers", type=several, default=[1, 2, 4], metavar="N,N")
    parser.add_argument("--runs", type=positive, default=5, metavar="R", help="of each side; default %(default)s")
    parser.add_argument("--quick", action="store_true", help="one run of 20,000 messages: whether it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    options = parser.parse_args(arguments)
    if options.quick:
        options.messages, options.runs = 20_000, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
