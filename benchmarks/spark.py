"""What RocketMQ in Spark costs: reading a backlog, a small micro-batch, a batch for a handler.

    python -m benchmarks.spark --runs 2 --tuned

It takes about four minutes of an idle machine of two cores, and says of each bar whether it was met. A topic of a
real broker is filled with each size of body, and kept as Parquet, too; the sides then read it in turns,
each into Spark's `noop` sink, in one warm session of two cores. CPU is that of the JVM and its Python workers, not
the broker's. `ours` reads all twelve columns, a map of all properties among them. `seven` reads as many columns as
the prototype whose figures the bar of rows a CPU-second stands beside, and is what is held against it: that one
handed out the properties as one text, unread, and looked at no checksum, while here the key is found in them. `loop`
is such a source, on the same broker: the absolute bar is worth as much as the processor it was written for, and
beside `loop` it means the same on any. `lean` are the six that need no properties; `naive` yields a tuple a row of
twelve columns, and reads a quarter of the messages. `kafka` is Spark's own source, in the JVM, on a Kafka with as
many messages of that size: seven columns, no map among them; it is left out where Maven cannot bring its jars. `three`
are the queue, the offset and the body, by `columns=`; `three-parquet` and `three-kafka` are the same of the others. A
read has costs that do not depend on its rows (planning, workers, a compiler that is still at it, which makes the first
millions dearer): two millions are read, of larger bodies a quarter. Before that: micro-batches of four rows beside a
reader that does nothing, and batches of 1,000 messages for a handler beside the same job on a table that is ready.
After `--seconds`, or when it is interrupted, no further run begins, and what was measured is said.
Exit 0: measured; 1: rows were missing; 3: Java or the cluster is not to be had.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import spark_kafka
from benchmarks.arguments import positive
from benchmarks.backlog import TUNED_BROKER, TUNED_PULL
from benchmarks.dispatched import NotDispatched, wait_dispatched
from benchmarks.machine import host
from benchmarks.process_tree import TICKS_A_SECOND
from tests.interop import jars
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.reading.spark import spark_session

MEASURED, WRONG, MISSING = 0, 1, 3
CPU_LOOK_S = 0.1
TOPIC = "benchmark"
FULL = {  # the suite's session has the quick compiler alone, and interprets what is run once
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
}
BAR_ROWS, BAR_NAIVE, BAR_MICRO_MS, BAR_HANDLER = 350_000, 2.2, 60, 2.0
BAR_PARQUET, BAR_KAFKA = {100: 0.95, 1024: 1.1}, 1.2
BAR_THREE_PARQUET, BAR_THREE_KAFKA = 0.5, 2.0
BAR_LOOP = 0.35 / 0.40  # the bar of rows, over what the bare loop did on the machine that it was written for
FILL_BATCH = 1_000
LARGER = 4  # of bodies above 100 bytes there is one message in so many
SEVEN = ("topic", "queueId", "offset", "key", "body", "storeTime", "bornTime")
THREE = ("queueId", "offset", "body")
LEAN = ("topic", "queueId", "offset", "body", "storeTime", "bornTime")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRun:
    who: str
    rows_a_second: float
    rows_a_cpu_second: float
    jvm: float
    """The JVM's share of the CPU; the rest is Python's."""
    load: float

    def __str__(self) -> str:
        us = 1e6 / self.rows_a_cpu_second
        return (
            f"{self.who:13} {self.rows_a_second:10,.0f} rows/s {self.rows_a_cpu_second:10,.0f} rows a CPU-second: "
            f"{us * self.jvm:.2f} us a row the JVM's, {us * (1 - self.jvm):.2f} Python's  load {self.load:.1f}"
        )


@dataclass(frozen=True, slots=True)
class Field:
    """A filled topic."""

    name_server: str
    topic: str
    messages: int
    body: int


SIDES = (
    *("ours", "parquet", "kafka", "three", "three-parquet", "three-kafka"),
    *("seven", "loop", "lean", "stream", "naive"),
)
Side: TypeAlias = tuple[int, Callable[[], None]]
"""Its number of rows, and what reads them."""


class Wrong(Exception):
    """A side that did not read what is there."""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if reason := jars.missing():
        print(f"peer missing: {reason}", file=sys.stderr)
        return MISSING
    nursery = Nursery()
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    runs: dict[int, list[SparkRun]] = {}
    latencies: dict[str, dict[str, float]] = {}
    until = time.monotonic() + options.seconds
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            shape = Shape(settings=TUNED_BROKER if options.tuned else {}, is_measured=True)
            with Cluster(Path(folder, "cluster"), nursery, shape) as cluster:
                java = JavaPeer(nursery)
                fields = [
                    Field(cluster.name_server, f"body-{body}", _count(options, body), body) for body in options.body
                ]
                for field in fields if options.part in {"read", None} else ():
                    _fill(java, field, options.queues)
                kafka = _kafka(options, fields, Path(folder), nursery)
                extra = {**FULL, "spark.jars": spark_kafka.source_jars()} if kafka else FULL
                with spark_session(Path(folder), extra) as spark:
                    if options.part != "read":
                        _latencies(spark, java, cluster.name_server, Path(folder), options.part, latencies)
                    for field in fields if options.part in {"read", None} else ():
                        sides = _sides(spark, field, Path(folder), kafka, options.side or SIDES)
                        _runs(options.runs, field, sides, Cpu(_jvm(spark)), until, runs.setdefault(field.body, []))
    except KeyboardInterrupt:
        print("interrupted; what was measured:", file=sys.stderr)
    except (NotDispatched, Wrong) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return WRONG
    finally:
        nursery.close()
    _report(options, runs, latencies)
    return MEASURED


def _report(
    options: argparse.Namespace, runs: dict[int, list[SparkRun]], latencies: dict[str, dict[str, float]]
) -> None:
    medians = {body: _medians(each) for body, each in runs.items()}
    ratios = {
        body: {who: found["ours"].rows_a_cpu_second / run.rows_a_cpu_second for who, run in found.items()}
        for body, found in medians.items()
        if "ours" in found
    }
    for body, found in medians.items():
        for run in found.values():
            print(f"{body:5} B, median: {run}")
        if body in ratios:
            print(f"{body:5} B: ours, rows a CPU-second, over " + _listed(ratios[body], "x"))
    for what, times in latencies.items():
        print(f"{what}, median ms: {_listed(times, '')}")
    for line in bars(medians, latencies):
        print(line)
    if options.json:
        content = {
            "schema": 1,
            "host": host(),
            "settings": {name: value for name, value in vars(options).items() if name != "json"},
            "runs": {body: [asdict(run) for run in each] for body, each in runs.items()},
            "medians": {body: {who: asdict(run) for who, run in found.items()} for body, found in medians.items()},
            "ratios": ratios,
            "latencies_ms": latencies,
        }
        options.json.write_text(json.dumps(content, indent=2) + "\n")


def bars(medians: dict[int, dict[str, SparkRun]], latencies: dict[str, dict[str, float]]) -> list[str]:
    """One line a bar that was measured, and whether it was met."""
    found: list[tuple[str, float, str, bool]] = []
    runs = medians.get(100, {})
    if "seven" in runs:
        rows = runs["seven"].rows_a_cpu_second
        found.append(
            (f"rows a CPU-second at 100 B, seven columns, {BAR_ROWS:,} or more", rows, ",.0f", rows >= BAR_ROWS)
        )
    if "seven" in runs and "loop" in runs:
        times = runs["seven"].rows_a_cpu_second / runs["loop"].rows_a_cpu_second
        found.append((f"times the bare loop's, {BAR_LOOP:.2f} or more", times, ".2f", times >= BAR_LOOP))
    if "ours" in runs and "naive" in runs:
        times = runs["ours"].rows_a_cpu_second / runs["naive"].rows_a_cpu_second
        found.append((f"times the naive source, {BAR_NAIVE} or more", times, ".2f", times >= BAR_NAIVE))
    for body, each in medians.items():
        for who, peer, bar in (
            ("ours", "parquet", BAR_PARQUET.get(body)),
            ("three", "three-parquet", BAR_THREE_PARQUET),
            ("ours", "kafka", BAR_KAFKA),
            ("three", "three-kafka", BAR_THREE_KAFKA),
        ):
            if bar is not None and who in each and peer in each:
                times = each[who].rows_a_cpu_second / each[peer].rows_a_cpu_second
                found.append((f"{body} B, {who}: times {peer}, {bar} or more", times, ".2f", times >= bar))
    for what, sides in latencies.items():
        if "idle" in sides:
            above = sides["ours"] - sides["idle"]
            found.append(
                (f"{what}: ms above an idle reader, {BAR_MICRO_MS} at most", above, ".0f", above <= BAR_MICRO_MS)
            )
        else:
            times = sides["ours"] / sides["bare"]
            found.append(
                (f"{what}: times createDataFrame's, {BAR_HANDLER} at most", times, ".2f", times <= BAR_HANDLER)
            )
    return [f"bar {'met' if is_met else 'MISSED'}: {what}: {value:{shape}}" for what, value, shape, is_met in found]


def _listed(figures: dict[str, float], unit: str) -> str:
    return ", ".join(f"{who} {value:.2f}{unit}" for who, value in figures.items())


def _count(options: argparse.Namespace, body: int) -> int:
    return int(options.messages if body <= 100 else max(options.messages // LARGER, 1))


def _fill(java: JavaPeer, field: Field, queues: int) -> None:
    Admin(java, field.name_server).run(
        "updateTopic", "-c", "DefaultCluster", "-t", field.topic, "-r", str(queues), "-w", str(queues)
    )
    java.fill(field.name_server, field.topic, field.messages, body_bytes=field.body, batch=FILL_BATCH)

    def ends() -> list[int]:
        each = partial(java.offsets, field.name_server, field.topic, broker="broker-a", time_ms=0)
        return [each(queue=queue)["max"] for queue in range(queues)]

    wait_dispatched(ends, field.messages, field.topic)


def _latencies(
    spark: Any, java: JavaPeer, name_server: str, folder: Path, part: str | None, found: dict[str, dict[str, float]]
) -> None:
    from benchmarks.spark_latency import BATCH_ROWS, HANDLER_ROWS, handler_batches, micro_batches

    topic, queues = "small", 4
    _fill(java, Field(name_server, topic, 3 * HANDLER_ROWS * queues, 100), queues)
    if part != "handler":
        found[f"micro-batch of {BATCH_ROWS} rows"] = micro_batches(spark, name_server, topic, queues, folder)
    if part != "micro":
        found[f"handler's batch of {HANDLER_ROWS}"] = handler_batches(spark, name_server, topic, 15)


def _kafka(options: argparse.Namespace, fields: list[Field], folder: Path, nursery: Nursery) -> str:
    """The address of a Kafka with the same topics; empty where its jars cannot be had."""
    if options.part not in {"read", None} or not {"kafka", "three-kafka"} & set(options.side or SIDES):
        return ""
    if reason := spark_kafka.missing():
        print(f"kafka missing: {reason}", file=sys.stderr)
        return ""
    kafka = spark_kafka.Kafka(folder / "kafka", nursery, options.queues)
    for field in fields:
        kafka.fill(field.topic, field.messages, field.body)
    return kafka.address


def _sides(spark: Any, field: Field, folder: Path, kafka: str, chosen: Sequence[str]) -> dict[str, Side]:
    from framework_spark import read
    from framework_spark.schema import SCHEMA
    from pyspark.sql.types import StructType

    from benchmarks.spark_naive import SHARE, LoopSource, NaiveSource

    spark.dataSource.register(NaiveSource)
    spark.dataSource.register(LoopSource)
    given = {"nameServers": field.name_server, "topic": field.topic}
    parquet = str(folder / f"{field.topic}.parquet")

    def of(*columns: str) -> Any:
        schema = StructType([SCHEMA[name] for name in columns])
        return spark.read.format("rocketmq").options(**given).schema(schema).load()

    def drained(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    ours = spark.read.format("rocketmq").options(**given).load()
    if {"parquet", "three-parquet"} & set(chosen):
        ours.write.parquet(parquet)
    found = ours.selectExpr("count(*)", "count(distinct queueId, offset)").collect()[0]
    if tuple(found) != (field.messages, field.messages):
        raise Wrong(f"{found[0]} rows, {found[1]} of them different, of {field.messages} messages")

    def stream() -> None:
        source = spark.readStream.format("rocketmq").options(**given, startingOffsets="earliest").load()
        checkpoint = tempfile.mkdtemp(dir=folder)
        query = source.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        running = query.start()
        running.awaitTermination()
        count = sum(each["numInputRows"] for each in running.recentProgress)
        if count != field.messages:
            raise Wrong(f"the stream read {count} rows of {field.messages}")

    def of_kafka() -> Any:
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka).option("subscribe", field.topic)
        return source.load()

    sides = {
        "ours": (field.messages, lambda: drained(ours)),
        "parquet": (field.messages, lambda: drained(spark.read.parquet(parquet))),
        "three": (field.messages, lambda: drained(read(spark, columns=THREE, **given))),
        "three-parquet": (field.messages, lambda: drained(spark.read.parquet(parquet).select(*THREE))),
        "seven": (field.messages, lambda: drained(of(*SEVEN))),
        "loop": (field.messages, lambda: drained(spark.read.format("loop").options(**given).load())),
        "lean": (field.messages, lambda: drained(of(*LEAN))),
        "stream": (field.messages, stream),
        "naive": (field.messages // SHARE, lambda: drained(spark.read.format("naive").options(**given).load())),
    }
    if kafka:
        sides["kafka"] = field.messages, lambda: drained(of_kafka())
        sides["three-kafka"] = field.messages, lambda: drained(of_kafka().select("partition", "offset", "value"))
    return {who: side for who, side in sides.items() if who in chosen}


def _jvm(spark: Any) -> int:
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001  # PySpark has no public way to ask


def _runs(count: int, field: Field, sides: dict[str, Side], cpu: Cpu, until: float, runs: list[SparkRun]) -> None:
    try:
        for number in range(count + 1):  # the first of each side warms it up
            for who, (rows, read) in sides.items():
                if time.monotonic() > until:
                    return
                load, began, (all_s, jvm_s) = os.getloadavg()[0], time.monotonic(), cpu.now_s()
                read()
                wall_s, after = time.monotonic() - began, cpu.now_s()
                cpu_s = after[0] - all_s
                run = SparkRun(
                    who=who,
                    rows_a_second=rows / wall_s,
                    rows_a_cpu_second=rows / cpu_s,
                    jvm=(after[1] - jvm_s) / cpu_s,
                    load=load,
                )
                runs += [run] if number else []
                print(f"{field.body:5} B, run {number}: {run}", file=sys.stderr, flush=True)
    finally:
        cpu.close()


def _medians(runs: list[SparkRun]) -> dict[str, SparkRun]:
    return {
        who: SparkRun(
            who=who,
            rows_a_second=statistics.median(run.rows_a_second for run in runs if run.who == who),
            rows_a_cpu_second=statistics.median(run.rows_a_cpu_second for run in runs if run.who == who),
            jvm=statistics.median(run.jvm for run in runs if run.who == who),
            load=max(run.load for run in runs),
        )
        for who in dict.fromkeys(run.who for run in runs)
    }


class Cpu:
    """CPU seconds of Spark's JVM and all that it has started, looked at often: who ends leaves what was seen last.

    (The kernel's own sums lose processes that nobody waited for, as those that Spark kills are.)
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ticks: dict[int, int] = {}
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def now_s(self) -> tuple[float, float]:
        """Of all, and of the JVM alone."""
        self._look()
        with self._lock:
            return sum(self._ticks.values()) / TICKS_A_SECOND, self._ticks.get(self._pid, 0) / TICKS_A_SECOND

    def _run(self) -> None:
        while not self._closing.wait(CPU_LOOK_S):
            self._look()

    def _look(self) -> None:
        with self._lock:
            waiting = [self._pid]
            for pid in waiting:
                with suppress(OSError):  # it ended just now
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    self._ticks[pid] = int(fields[11]) + int(fields[12])
                    for thread in Path(f"/proc/{pid}/task").iterdir():
                        waiting += [int(child) for child in (thread / "children").read_text().split()]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--messages", type=positive, default=2_000_000, metavar="N", help="of 100 bytes; default %(default)s"
    )
    parser.add_argument("--body", type=positive, action="append", metavar="BYTES", help="100 and 1024 by default")
    parser.add_argument("--runs", type=positive, default=2, metavar="R", help="of each side; default %(default)s")
    parser.add_argument("--queues", type=positive, default=4, metavar="Q")
    parser.add_argument("--part", choices=["read", "micro", "handler"], help="one of the three alone")
    parser.add_argument("--side", action="append", choices=SIDES, help="these alone, of those that read; repeatable")
    parser.add_argument("--tuned", action="store_true", help=f"the broker hands out {TUNED_PULL} messages a pull")
    parser.add_argument("--seconds", type=positive, default=300, help="after which no run begins; default %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    options = parser.parse_args(arguments)
    options.body = options.body or [100, 1024]
    return options


if __name__ == "__main__":
    sys.exit(main())
