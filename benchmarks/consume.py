"""How fast a backlog is consumed from a real broker: ours against the Java push consumer.

    python -m benchmarks.consume --against java --messages 1000000 --body 100 --runs 5

One topic is filled once; each run reads all of it as a new group, the sides in turns. Rate: messages after the first
pull's, divided by the time from the first to the last handled. CPU and memory are those of the consumer's process tree
between the same instants, seen from outside. Where our handler is an orderly one, Java's listener is one, too. A run
counts only when every message was handled once and the committed offsets reached the end. Exit 0: measured; 1:
something was lost or repeated; 3: Java or the cluster is not to be had.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.arguments import positive
from benchmarks.backlog import TUNED_BROKER, Field, Filler, Wrong, consumed, group_of
from benchmarks.consumers import FEATURES, HANDLERS, OBSERVED, RELIABILITY, SideEnded
from benchmarks.dispatched import NotDispatched
from benchmarks.observers import Unobserved, observed
from benchmarks.report import Run, table, write_json
from benchmarks.turns import in_turns
from tests.interop import jars
from tests.interop.cluster import Cluster, Shape
from tests.interop.processes import Nursery
from tests.ports import free_port

MEASURED, WRONG, MISSING = 0, 1, 3


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if reason := jars.missing():
        print(f"peer missing: {reason}", file=sys.stderr)
        return MISSING
    nursery = Nursery()
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            shape = Shape(settings=TUNED_BROKER if options.tuned else {}, is_measured=True)
            with Cluster(Path(folder, "cluster"), nursery, shape) as cluster:
                filler = Filler.of(cluster, nursery, Path(folder))
                field = filler.filled(
                    "benchmark", messages=options.messages, body=options.body, queues=options.queues,
                    handler=options.handler, is_tuned=options.tuned,
                )  # fmt: skip
                runs = _all_runs(options, field)
    except (NotDispatched, Wrong, SideEnded, Unobserved) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return WRONG
    finally:
        nursery.close()
    print(table(runs))
    if options.json:
        write_json(options.json, "consume", runs, vars(options))
    return MEASURED


def _all_runs(options: argparse.Namespace, field: Field) -> list[Run]:
    compared = RELIABILITY if options.reliability else OBSERVED if options.observed else FEATURES
    ours = list(compared) if options.reliability or options.observed or options.features else ["ours"]
    sides = ["java", *ours] if options.against == "java" else ours

    def measure(_: str, who: str, number: int) -> dict[str, float]:
        work = replace(field.work, settings=RELIABILITY.get(who, {}), handler=OBSERVED.get(who, field.work.handler))
        if who == "observed":
            work = replace(work, listen=free_port())
            with observed(work.listen, work.name_server, group_of(who, number, work), field.nursery, field.folder):
                return consumed(who, number, work, field)
        return consumed(who, number, replace(work, handler=who) if who in FEATURES else work, field)

    return [Run.of(sample) for sample in in_turns([""], sides, options.runs, measure)]


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
    parser.add_argument(
        "--observed",
        action="store_true",
        help="ours as unobserved and observed: without and with metrics scraped each second, traces and a dashboard",
    )
    parser.add_argument("--queues", type=positive, default=8, metavar="Q")
    parser.add_argument("--tuned", action="store_true", help="broker and clients move 1024 messages a pull")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
