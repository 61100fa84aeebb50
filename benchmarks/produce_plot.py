"""The producers' figures as a plot: what each way of sending comes to, ours beside Java's.

    python -m benchmarks.produce --mode batch --json batch.json          and so for each mode
    python -m benchmarks.produce_plot sending.svg batch.json concurrent.json

One chart for the rates and one for the processor time a message, each with a pair of bars per file: the medians. A file
of one side alone has one bar. Exit 2: a file that is no result of `benchmarks.produce`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.plots import Bars, drawn_bars

DRAWN, UNREADABLE = 0, 2
FIGURES = (("rate", "messages a second"), ("cpu_per_message_us", "processor time a message, in microseconds"))
SIDES = (("ours", "this framework"), ("java", "Java"))


def drawn(results: Sequence[Mapping[str, Any]]) -> str:
    """The SVG."""
    charts = []
    for figure, title in FIGURES:
        values, ours = dict[str, float](), set[str]()
        for result in results:
            for who, name in SIDES:
                if found := result["medians"].get(who):
                    label = f"{_way(result['settings'])}, {name}"
                    values[label] = found[figure]
                    ours |= {label} if who == "ours" else set()
        charts.append(Bars(title=title, values=values, strong=frozenset(ours)))
    return drawn_bars("Sending: this framework beside the Java producer", charts)


def _way(settings: Mapping[str, Any]) -> str:
    return f"{settings['mode']}, {settings['body']:,} B"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.produce_plot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("picture", type=Path, metavar="FILE.svg")
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULT.json", help="what `produce --json` wrote")
    options = parser.parse_args(arguments)
    try:
        text = drawn([json.loads(path.read_text()) for path in options.results])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"no result of benchmarks.produce: {error!r}", file=sys.stderr)
        return UNREADABLE
    options.picture.write_text(text)
    return DRAWN


if __name__ == "__main__":
    sys.exit(main())
