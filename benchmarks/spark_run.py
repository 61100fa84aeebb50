"""One run of a stream as a picture: how many messages wait, and how long each micro-batch takes.

    python -m benchmarks.spark_run --seconds 60 --rate 1000 --out docs/spark-run.svg

A box is sent `rate` short messages a second, and ten seconds' worth at once after a third of the time; a query reads
them, at most 5,000 a micro-batch, one begun a second. What is drawn is what Spark says of each micro-batch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from framework_spark.reports import progress_facts

from tests.reading.spark import spark_session
from tests.reading.threads import ThreadBox, texts, thread_box

TOPIC = "measured"
PER_TRIGGER = 5000
WIDTH, HEIGHT, LEFT, TOP, GAP = 720, 130, 70, 34, 62


@dataclass(frozen=True, slots=True)
class Point:
    """One micro-batch."""

    at_s: float
    rows: int
    batch_ms: int
    lag: int


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark_run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="an SVG")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, thread_box() as box:
        points = _measured(box, Path(folder), options.seconds, options.rate)
    title = f"{options.rate} messages a second, {10 * options.rate} at once after {options.seconds // 3} s"
    options.out.write_text(drawn(points, f"{title}; machine's load {os.getloadavg()[0]:.0f}"))
    sys.stdout.write(f"{len(points)} micro-batches, {sum(point.rows for point in points)} rows: {options.out}\n")
    return 0


def _measured(box: ThreadBox, folder: Path, seconds: int, rate: int) -> list[Point]:
    box.send(TOPIC, texts(TOPIC, 1), queue=0)
    with spark_session(folder) as spark:
        source = spark.readStream.format("rocketmq").options(
            nameServers=box.address, topic=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=PER_TRIGGER
        )
        writer = source.load().writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(processingTime="1 second").start()
        try:
            while not query.recentProgress:  # its workers start
                query.awaitTermination(0.2)
            _send(box, seconds, rate)
            return _points(query.recentProgress)
        finally:
            query.stop()


def _send(box: ThreadBox, seconds: int, rate: int) -> None:
    began, over, sent = time.monotonic(), threading.Event(), 0
    for second in range(seconds):
        burst = 10 * rate if second == seconds // 3 else 0
        box.send(TOPIC, texts(TOPIC, rate + burst, start=sent), queue=second % 4)
        sent += rate + burst
        over.wait(max(began + second + 1 - time.monotonic(), 0))


def _points(progress: Sequence[Any]) -> list[Point]:
    begins = [datetime.fromisoformat(each["timestamp"]).timestamp() for each in progress]
    found = []
    for at, each in zip(begins, progress, strict=True):
        facts = progress_facts(each)
        found.append(Point(at - begins[0], int(facts["rows"]), int(facts["batch_ms"]), int(facts["lag"])))
    return found


def drawn(points: Sequence[Point], title: str) -> str:
    """An SVG of two panels over the same seconds."""
    last_s = max(point.at_s for point in points) or 1.0
    lag = [(point.at_s, float(point.lag)) for point in points]
    took = [(point.at_s, float(point.batch_ms)) for point in points]
    height = TOP + 2 * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{LEFT}" y="16">{title}</text>'
        f"{_panel(lag, last_s, TOP, 'messages that wait', '#b4530a')}"
        f"{_panel(took, last_s, TOP + HEIGHT + GAP, 'milliseconds a micro-batch', '#1d5fa8')}</svg>\n"
    )


def _panel(values: Sequence[tuple[float, float]], last_s: float, top: float, name: str, colour: str) -> str:
    most = max(value for _, value in values) or 1.0
    base = top + 14 + HEIGHT
    line = " ".join(f"{LEFT + at / last_s * WIDTH:.1f},{base - value / most * HEIGHT:.1f}" for at, value in values)
    ticks = "".join(
        f'<text x="{LEFT + share * WIDTH:.0f}" y="{base + 16}" text-anchor="middle">{share * last_s:.0f} s</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<text x="{LEFT}" y="{top + 6}" fill="{colour}">{name}</text>'
        f'<text x="{LEFT - 6}" y="{base - HEIGHT + 8}" text-anchor="end">{most:,.0f}</text>'
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">0</text>'
        f'<path d="M{LEFT},{base - HEIGHT}V{base}H{LEFT + WIDTH}" fill="none" stroke="#888"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>{ticks}'
    )


if __name__ == "__main__":
    sys.exit(main())
