"""Revenue per minute as a picture, read back from the topic `revenue`: cells for a notebook, or a command.

    python example_app/revenue_plot.py 127.0.0.1:9876 revenue.svg

Editors and Jupyter (by jupytext) run each part between `# %%` on its own. A total may be sent several times, since late
orders correct their minute: the newest per key counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOTAL = "minute timestamp, article string, cents bigint, orders bigint"
WIDTH, HEIGHT, LEFT = 720, 260, 70
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
    rows = frame.selectExpr("date_format(minute, 'HH:mm') minute", "article", "cents").orderBy("minute", "article")
    return [Total(row.minute, row.article, row.cents) for row in rows.collect()]


# %% The picture: a bar per minute, a colour per article


def drawn(found: Iterable[Total]) -> str:
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
            parts.append(f'<text x="{LEFT + at * step:.1f}" y="{HEIGHT + 38}">{minute}</text>')
    for at, article in enumerate(articles):
        parts.append(f'<text x="{LEFT + at * 110}" y="14" fill="{colour[article]}">{article}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{HEIGHT + 50}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


# %% All of it


def main(name_servers: str, into: str) -> None:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run the first python3 of the PATH
    spark = SparkSession.builder.appName("revenue-plot").getOrCreate()
    rows = collected(totals(spark, name_servers))
    Path(into).write_text(drawn(rows))
    print(f"{len(rows)} totals: {into}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
