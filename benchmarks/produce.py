"""How fast messages are sent to a real broker: ours against the Java producer, in turns.

    python -m benchmarks.produce --against java --mode concurrent --messages 100000 --body 1024 --runs 5

Modes: `batch` (100 messages a request, one request after the other), `single` (one after the other), `concurrent`
(`--in-flight` at once; Java's asynchronous send), `one-way`, `accumulated` (concurrent, collected into batches for up
to 10 ms on both sides). Each side sends a tenth first, to be warm. Rate and processor time are those of the rest, the
latter of the process, seen from outside. A run counts only if the broker has every message once; of one-way ones it may
have fewer, which is said. Exit 0: measured; 1: lost or doubled; 3: Java or the cluster is not to be had.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arguments import positive
from benchmarks.backlog import Wrong
from benchmarks.consumers import JAVA_SOURCES, ROOT
from benchmarks.machine import Meter
from benchmarks.on_a_cluster import on_a_cluster
from benchmarks.process_tree import Watch
from benchmarks.report import Run, table, write_json
from tests.interop import jars
from tests.interop.cluster import Cluster
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import wait_until

MODES = ("batch", "single", "concurrent", "one-way", "accumulated")
TOPIC = "benchmark"


@dataclass(frozen=True, slots=True)
class Field:
    """What every run finds."""

    name_server: str
    java: JavaPeer
    nursery: Nursery
    folder: Path
    options: argparse.Namespace

    def stored(self) -> int:
        """How many messages the topic has."""
        ask, names = self.java.offsets, self.name_server
        queues = range(self.options.queues)
        return sum(ask(names, TOPIC, broker="broker-a", queue=number, time_ms=0)["max"] for number in queues)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)

    def measure(cluster: Cluster, nursery: Nursery, folder: Path) -> list[Run]:
        return _all_runs(_made(options, cluster, nursery, folder))

    def tell(runs: list[Run]) -> None:
        print(table(runs))
        if options.json:
            write_json(options.json, "produce", runs, vars(options))

    return on_a_cluster(measure, tell)


def _made(options: argparse.Namespace, cluster: Cluster, nursery: Nursery, folder: Path) -> Field:
    java = JavaPeer(nursery)
    queues = str(options.queues)
    Admin(java, cluster.name_server).run(
        "updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", queues, "-w", queues
    )  # fmt: skip
    return Field(cluster.name_server, java, nursery, folder, options)


def _all_runs(field: Field) -> list[Run]:
    sides = ["java", "ours"] if field.options.against == "java" else ["ours"]
    runs = []
    for number in range(1, field.options.runs + 1):
        for who in sides:
            run = _run(who, number, field)
            runs.append(run)
            print(f"run {number}: {run}", file=sys.stderr)
    return runs


def _run(who: str, number: int, field: Field) -> Run:
    options = field.options
    meter, before = Meter(), field.stored()
    folder = field.folder / f"{who}-{number}"
    folder.mkdir()
    report = folder / "report"
    words = [field.name_server, TOPIC, options.mode, str(options.messages), str(options.body), str(options.in_flight)]
    if who == "java":
        flags = ("-Xmx512m", f"-Duser.home={folder}")
        command = jars.java("ProduceBench", *words, classes=jars.compiled(JAVA_SOURCES), flags=flags)
    else:
        command = [sys.executable, "-m", "benchmarks.produce_ours", *words]
    child = field.nursery.start(command, cwd=ROOT if who == "ours" else folder, output=report)
    watch = Watch(child.pid)
    try:
        tale = _tale(child, report, options)
    finally:
        watch.close()
    field.nursery.bury(child, timeout_s=30)
    _check(who, field, before + tale["sent"], may_lose=options.mode == "one-way")
    busy = meter.read()
    elapsed_s = (tale["last_ns"] - tale["first_ns"]) / 1e9
    return Run(
        who=who,
        rate=options.messages / elapsed_s,
        cpu_per_message_us=watch.cpu_s(tale["first_ns"], tale["last_ns"]) / options.messages * 1e6,
        peak_memory_mb=watch.peak_bytes / 1e6,
        load=busy.load,
        stolen=busy.stolen,
    )


def _tale(child: subprocess.Popen[str], report: Path, options: argparse.Namespace) -> dict[str, int]:
    """What the side said when it had sent everything. It lives a moment longer, to be looked at."""

    def lines() -> list[dict[str, int]]:
        text = report.read_text().splitlines() if report.exists() else []
        return [json.loads(line) for line in text if line.startswith('{"sent"') and line.endswith("}")]

    wait_until(lambda: child.poll() is not None or bool(lines()), "the last answer", 60 + options.messages / 100)
    if not lines():
        raise Wrong(f"the producer ended before all was sent:\n{report.read_text()[-2_000:]}")
    return lines()[0]


def _check(who: str, field: Field, expected: int, *, may_lose: bool) -> None:
    try:
        wait_until(lambda: field.stored() >= expected, "every message", pause_s=0.5)
    except AssertionError:
        if not may_lose:
            raise Wrong(f"{who} sent until {expected} and the topic has {field.stored()}") from None
        print(f"{who}: {expected - field.stored()} one-way messages did not arrive", file=sys.stderr)
    if field.stored() > expected:
        raise Wrong(f"{who} doubled: the topic has {field.stored()} messages instead of {expected}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.produce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", choices=["java", "none"], default="java", help="the peer; default %(default)s")
    parser.add_argument("--mode", choices=MODES, default="concurrent", help="default %(default)s")
    parser.add_argument("--messages", type=positive, default=100_000, metavar="N")
    parser.add_argument("--body", type=positive, default=1_024, metavar="BYTES")
    parser.add_argument("--runs", type=positive, default=5, metavar="R", help="of each side; default %(default)s")
    parser.add_argument(
        "--in-flight", type=positive, default=256, metavar="N", help="sends at once; default %(default)s"
    )
    parser.add_argument("--queues", type=positive, default=8, metavar="Q")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
