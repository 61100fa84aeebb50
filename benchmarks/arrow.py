"""What pulled bytes cost on their way to Arrow columns for Spark: `python -m benchmarks.arrow [--runs 7] [--body 100]`.

Processor time a message, from the answers of pulls of a thousand messages to record batches, without Spark: all twelve
columns, seven with the key among them, six that need no properties, and three with the body among them, whole fields at
a time (`packed`) and record by record (`lists`). `alike` are messages that differ in values alone; `mixed` have keys
and bodies of several lengths. The cases take turns within each run, so that a busy machine slows all of them alike;
shown are the median and the best.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import pyarrow as pa
from framework_spark.frames import SHAPE
from framework_spark.packed import Packed
from framework_spark.rows import Rows

from benchmarks.arguments import positive
from benchmarks.decode import PROPERTIES, QUEUE, Case, sample
from benchmarks.spark import LEAN, SEVEN, THREE
from framework.reading import Columns
from framework.wire.stored import Record, encode_record

PULLS, MESSAGES = 4, 1_000
END = 1 << 40


def pulls(body_bytes: int, *, mixed: bool) -> list[bytes]:
    """As brokers answer: each with so many numbered messages."""

    def record(number: int) -> bytes:
        key = f"m{10**number % 7919 if mixed else number + 100_000}"
        body = b"x" * (body_bytes - (number % 7 if mixed else 0))
        unique = f"{number:032X}"
        properties = {**PROPERTIES, "UNIQ_KEY": unique, "KEYS": key}
        return encode_record(Record(topic=QUEUE.topic, body=body, properties=properties, queue_offset=number))

    return [b"".join(record(at * MESSAGES + n) for n in range(MESSAGES)) for at in range(PULLS)]


def packed(given: list[bytes], shape: pa.Schema) -> list[pa.RecordBatch]:
    columns = Packed(QUEUE)
    for data in given:
        columns.add(data, END)
    return list(columns.batches(shape))


def lists(given: list[bytes], shape: pa.Schema) -> list[pa.RecordBatch]:
    columns = Columns(QUEUE)
    for data in given:
        columns.add(data, END)
    return [Rows(columns).batch(shape)]


def cases(body_bytes: int) -> list[Case]:
    seven, lean, three = (pa.schema([SHAPE.field(name) for name in names]) for names in (SEVEN, LEAN, THREE))
    shapes = {"all columns": SHAPE, "seven columns": seven, "without properties": lean, "three columns": three}
    found = []
    for kind in ("alike", "mixed"):
        given = pulls(body_bytes, mixed=kind == "mixed")
        for way in (packed, lists):
            for what, shape in shapes.items():

                def work(way: object = way, given: list[bytes] = given, shape: pa.Schema = shape) -> object:
                    return packed(given, shape) if way is packed else lists(given, shape)

                found.append(Case(f"{kind}, {way.__name__}, {what}", "message", PULLS * MESSAGES, work))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arrow", description="Pulled bytes to Arrow columns.")
    parser.add_argument("--runs", type=positive, default=7, help="how often each case is measured, in turns (7)")
    parser.add_argument("--body", type=positive, default=100, help="bytes of a message's body (100)")
    options = parser.parse_args()
    every = cases(options.body)
    figures: dict[str, list[float]] = {case.name: [] for case in every}
    for _ in range(options.runs):
        for case in every:
            figures[case.name].append(sample(case))
    print(f"{'':36}{'median':>10}{'best':>10}   ns a message, body of {options.body} B, {options.runs} runs")
    for name, times in figures.items():
        print(f"{name:36}{statistics.median(times):10.0f}{min(times):10.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
