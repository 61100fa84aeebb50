"""How fast a backlog is consumed from a real broker: ours against the Java push consumer.

    python -m benchmarks.consume --against java --messages 1000000 --body 100 --runs 5

One topic is filled once; each run reads all of it as a new group, the sides in turns. Rate: messages after the first
pull's, divided by the time from the first to the last handled. CPU and memory are those of the consumer's process tree
between the same instants, seen from outside. A run counts only when every message was handled once and the committed
offsets reached the end. Exit 0: measured; 1: something was lost or repeated; 3: Java or the cluster is not to be had.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.arguments import positive
from benchmarks.consumers import FEATURES, HANDLERS, RELIABILITY, SideEnded, Work, start_java, start_ours
from benchmarks.dispatched import NotDispatched, wait_dispatched
from benchmarks.handlers.order import template
from benchmarks.process_tree import Watch
from benchmarks.report import Run, table, write_json
from tests.interop import jars
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery, wait_until

MEASURED, WRONG, MISSING = 0, 1, 3

STOCK_PULL, TUNED_PULL = 32, 1024  # A stock broker hands out 32 messages a pull, whatever is asked for.
JAVA_BATCH, TUNED_JAVA_BATCH = 1, 32
TUNED_BROKER = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(4 << 20)}
REPEATS_WAIT_S = 1.5
"""After the last message: a repeat that is under way comes within one pull."""


class Wrong(Exception):
    """A run in which something was lost or came twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What every run finds: a filled topic, and whom to ask about it."""

    work: Work
    admin: Admin
    offsets: int
    """The sum of all queue offsets in the topic."""
    nursery: Nursery
    folder: Path


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if reason := jars.missing():
        print(f"peer missing: {reason}", file=sys.stderr)
        return MISSING
    nursery = Nursery()
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            shape = Shape(settings=TUNED_BROKER if options.tuned else {})
            with Cluster(Path(folder, "cluster"), nursery, shape) as cluster:
                runs = _all_runs(options, _filled(options, cluster, nursery, Path(folder)))
    except (NotDispatched, Wrong, SideEnded) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return WRONG
    finally:
        nursery.close()
    print(table(runs))
    if options.json:
        write_json(options.json, runs, {name: value for name, value in vars(options).items() if name != "json"})
    return MEASURED


def _filled(options: argparse.Namespace, cluster: Cluster, nursery: Nursery, folder: Path) -> Field:
    """A topic with all messages, sent in batches by the Java producer."""
    java = JavaPeer(nursery)
    admin = Admin(java, cluster.name_server)
    topic = "benchmark"
    admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", str(options.queues), "-w", str(options.queues))
    began = time.monotonic()
    java.fill(cluster.name_server, topic, options.messages, template=template(options.body))
    print(f"filled: {options.messages} messages in {time.monotonic() - began:.1f} s", file=sys.stderr)
    ends = wait_dispatched(lambda: _ends(java, cluster.name_server, topic, options), options.messages, topic)
    work = Work(
        name_server=cluster.name_server,
        topic=topic,
        group="",
        count=options.messages,
        handler=options.handler,
        pull_batch=TUNED_PULL if options.tuned else STOCK_PULL,
        java_batch=TUNED_JAVA_BATCH if options.tuned else JAVA_BATCH,
    )
    offsets = sum(end * (end - 1) // 2 for end in ends)
    return Field(work=work, admin=admin, offsets=offsets, nursery=nursery, folder=folder)


def _ends(java: JavaPeer, name_server: str, topic: str, options: argparse.Namespace) -> list[int]:
    queues = range(options.queues)
    return [java.offsets(name_server, topic, broker="broker-a", queue=queue, time_ms=0)["max"] for queue in queues]


def _all_runs(options: argparse.Namespace, field: Field) -> list[Run]:
    ours = list(RELIABILITY) if options.reliability else FEATURES if options.features else ["ours"]
    sides = ["java", *ours] if options.against == "java" else ours
    runs = []
    for number in range(1, options.runs + 1):
        for who in sides:
            run = _run(who, number, field)
            runs.append(run)
            print(f"run {number}: {run}", file=sys.stderr)
    return runs


def _run(who: str, number: int, field: Field) -> Run:
    """One backlog consumed from the first to the last message, by a group that nobody had before."""
    work = replace(field.work, group=f"{who}-{number}")
    if who in FEATURES:
        work = replace(work, handler=who)
    work = replace(work, settings=RELIABILITY.get(who, {}))
    folder = field.folder / work.group
    folder.mkdir()
    load = os.getloadavg()[0]
    side = (start_java if who == "java" else start_ours)(work, field.nursery, folder)
    watch = Watch(side.pid)
    try:
        reached = side.wait_reached(timeout_s=60 + work.count / 1000)
        time.sleep(REPEATS_WAIT_S)
    finally:
        watch.close()
    left = side.end()
    _check(who, work, left.handled, left.offsets, field)
    elapsed_s = (reached.last_ns - reached.first_ns) / 1e9
    return Run(
        who=who,
        rate=(work.count - work.pull_batch) / elapsed_s,
        cpu_per_message_us=watch.cpu_s(reached.first_ns, reached.last_ns) / work.count * 1e6,
        peak_memory_mb=watch.peak_bytes / 1e6,
        load=load,
    )


def _check(who: str, work: Work, handled: int, offsets: int, field: Field) -> None:
    if (handled, offsets) != (work.count, field.offsets):
        raise Wrong(
            f"{who} handled {handled} messages with offsets adding up to {offsets}; "
            f"there are {work.count} and {field.offsets}"
        )

    def is_at_the_end() -> bool:
        printed = field.admin.run("consumerProgress", "-g", work.group)
        behind = re.search(r"Consume Diff Total: (-?\d+)", printed)
        return behind is not None and behind[1] == "0"

    try:
        wait_until(is_at_the_end, "commit", 10, pause_s=0.5)
    except jars.InteropError:
        raise Wrong(f"{who} handled everything and did not commit it:\n{_progress(field, work)}") from None


def _progress(field: Field, work: Work) -> str:
    return field.admin.run("consumerProgress", "-g", work.group)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.consume", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", choices=["java", "none"], default="java", help="the peer; default %(default)s")
    parser.add_argument("--messages", type=positive, default=1_000_000, metavar="N")
    parser.add_argument("--body", type=positive, default=100, metavar="BYTES")
    parser.add_argument("--runs", type=positive, default=5, metavar="R", help="of each side; default %(default)s")
    parser.add_argument("--handler", choices=sorted(HANDLERS), default="async", help="ours; default %(default)s")
    parser.add_argument(
        "--features", action="store_true", help="ours as async, pydantic, retry, hooks3 and full: what each adds"
    )
    parser.add_argument(
        "--reliability",
        action="store_true",
        help="ours as bare and kept: without and with a progress store and a limit",
    )
    parser.add_argument("--queues", type=positive, default=8, metavar="Q")
    parser.add_argument("--tuned", action="store_true", help="broker and clients move 1024 messages a pull")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
