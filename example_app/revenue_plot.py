"""Revenue per minute as a picture, read back from the topic `revenue`: cells for a notebook, or a command.

    python example_app/revenue_plot.py 127.0.0.1:9876 revenue.svg build/revenue/checkpoint

With the query's checkpoint, a folder of this machine, also what each micro-batch took and how many orders waited.
Editors and Jupyter (by jupytext) run each part between `# %%` on its own. A total may be sent several times, since late
orders correct their minute: the newest per key counts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOTAL = "minute timestamp, article string, cents bigint, orders bigint"
WIDTH, HEIGHT, LEFT, GAP = 720, 260, 70, 60
PANEL = 90
COLOURS = ("#1d5fa8", "#b4530a", "#3c7d3c", "#7a4a9c", "#8a8a2a", "#a83244")


class Total(NamedTuple):
    """What an article brought in a minute."""

    minute: str
    article: str
    cents: int


# %% The newest total per minute and article: three columns of the topic are read, and no others.


def totals(spark: SparkSession, name_servers: str) -> DataFrame:
    """`minute`, `article`, `cents`, `orders`."""
    from framework_spark import read
    from pyspark.sql import functions as f

    sent = read(spark, columns=["key", "body", "storeTime"], nameServers=name_servers, topic="revenue")
    opened = sent.withColumn("total", f.from_json(f.col("body").cast("string"), TOTAL))
    newest = opened.groupBy("key").agg(f.max_by("total", f.struct("storeTime", "total.orders")).alias("total"))
    return newest.select("total.*")


# %% The rows, few enough for the driver


def collected(frame: DataFrame) -> list[Total]:
    """By minute and article."""
    rows = frame.selectExpr("date_format(minute, 'yyyy-MM-dd HH:mm') minute", "article", "cents")
    return [Total(row.minute, row.article, row.cents) for row in rows.orderBy("minute", "article").collect()]


# %% What each micro-batch took, and how many orders waited when it was planned. Spark keeps some hundred of the newest


class Batch(NamedTuple):
    """One of the query's."""

    at_s: float
    took_ms: float
    waiting: int


def batches(spark: SparkSession, name_servers: str, checkpoint: Path) -> list[Batch]:
    """From its checkpoint, and from when each order was stored: those that were there, and no batch before had read."""
    from framework_spark import read
    from pyspark.sql import functions as f

    planned = {int(file.name): file.read_text().splitlines() for file in checkpoint.glob("offsets/[0-9]*")}
    times = {number: json.loads(about)["batchTimestampMs"] for number, (_, about, *_) in planned.items()}
    begins = [
        (number, times[number], broker, int(queue), int(end) if number else 0)
        for number in planned
        if number == 0 or number - 1 in planned
        for broker, queues in json.loads(planned[max(number - 1, 0)][2])["orders"].items()
        for queue, end in queues.items()
    ]
    if not begins:
        return []
    orders = read(spark, columns=["broker", "queueId", "offset", "storeTime"], nameServers=name_servers, topic="orders")
    batch = spark.createDataFrame(begins, "batch int, at bigint, broker string, queueId int, begin bigint")
    there = orders.join(f.broadcast(batch), ["broker", "queueId"])
    there = there.where("offset >= begin and storeTime <= timestamp_millis(at)").groupBy("batch").count()
    waiting = {row.batch: row["count"] for row in there.collect()}
    ended = {int(file.name): file.stat().st_mtime * 1000 for file in checkpoint.glob("commits/[0-9]*")}
    first = min(times.values())
    return [
        Batch((times[number] - first) / 1000, ended[number] - times[number], waiting.get(number, 0))
        for number in sorted({begin[0] for begin in begins} & set(ended))
    ]


# %% The picture: a bar per minute, a colour per article; below it the micro-batches


def drawn(found: Iterable[Total], ran: Sequence[Batch] = ()) -> str:
    """An SVG."""
    rows = list(found)
    minutes = sorted({row.minute for row in rows})
    articles = sorted({row.article for row in rows})
    colour = {article: COLOURS[at % len(COLOURS)] for at, article in enumerate(articles)}
    most = max((sum(row.cents for row in rows if row.minute == minute) for minute in minutes), default=0) or 1
    step = WIDTH / max(len(minutes), 1)
    parts = [f'<text x="{LEFT - 6}" y="34" text-anchor="end">{most / 100:,.0f}</text>']
    for at, minute in enumerate(minutes):
        top = 20.0 + HEIGHT
        for row in (row for row in rows if row.minute == minute):
            height = row.cents / most * (HEIGHT - 10)
            top -= height
            parts.append(
                f'<rect x="{LEFT + at * step + 1:.1f}" y="{top:.1f}" width="{max(step - 2, 1):.1f}" '
                f'height="{height:.1f}" fill="{colour[row.article]}"><title>{minute} {row.article}: '
                f"{row.cents / 100:,.2f}</title></rect>"
            )
        if at % max(len(minutes) // 8, 1) == 0:
            parts.append(f'<text x="{LEFT + at * step:.1f}" y="{HEIGHT + 38}">{minute[-5:]}</text>')
    parts.append(f'<text x="{LEFT}" y="14">revenue per minute</text>')
    for at, article in enumerate(articles):
        parts.append(f'<text x="{LEFT + 130 + at * 110}" y="14" fill="{colour[article]}">{article}</text>')
    if ran:
        top = HEIGHT + GAP
        parts.append(_panel([(each.at_s, each.waiting) for each in ran], top, "orders that waited", COLOURS[1]))
        top += PANEL + GAP
        parts.append(_panel([(each.at_s, each.took_ms) for each in ran], top, "ms per micro-batch", COLOURS[0]))
    height_of_all = HEIGHT + 50 + (2 * (PANEL + GAP) if ran else 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height_of_all}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _panel(values: Sequence[tuple[float, float]], top: float, name: str, colour: str) -> str:
    most, last_s = max(value for _, value in values) or 1.0, max(at for at, _ in values) or 1.0
    base = top + 14 + PANEL
    line = " ".join(f"{LEFT + at / last_s * WIDTH:.1f},{base - value / most * PANEL:.1f}" for at, value in values)
    return (
        f'<text x="{LEFT}" y="{top + 6}" fill="{colour}">{name}</text>'
        f'<text x="{LEFT - 6}" y="{base - PANEL + 8}" text-anchor="end">{most:,.0f}</text>'
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">0</text>'
        f'<path d="M{LEFT},{base - PANEL}V{base}H{LEFT + WIDTH}" fill="none" stroke="#888"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        f'<text x="{LEFT}" y="{base + 16}">0 s</text>'
        f'<text x="{LEFT + WIDTH}" y="{base + 16}" text-anchor="end">{last_s:.0f} s</text>'
    )


# %% All of it


def main(name_servers: str, into: str, checkpoint: str = "") -> None:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run the first python3 of the PATH
    spark = SparkSession.builder.appName("revenue-plot").getOrCreate()
    rows = collected(totals(spark, name_servers))
    ran = batches(spark, name_servers, Path(checkpoint)) if checkpoint else []
    Path(into).write_text(drawn(rows, ran))
    print(f"{len(rows)} totals, {len(ran)} micro-batches: {into}")


if __name__ == "__main__":
    if len(sys.argv) not in {3, 4}:
        sys.exit("usage: python example_app/revenue_plot.py NAME_SERVER FILE.svg [CHECKPOINT]")
    main(*sys.argv[1:])
