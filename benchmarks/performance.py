"""Draws docs/performance.md and its plots from the files of results: `make bench-report`.

    python -m benchmarks.performance [--results FOLDER] [--docs FOLDER]

It measures nothing. What was not measured is said to be so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.bars import BARS, CLAIMS, Bar
from benchmarks.machine import ROOT
from benchmarks.plots import Bars, Panel, drawn_bars, drawn_lines, short
from benchmarks.results import LOAD_MOST, Results, Row, read_all
from benchmarks.suite import RESULTS, SUITE, Measurement

Found = Mapping[str, Results]
PICTURES = "images"
NAMES = {
    "rate": "messages a second", "cpu_per_message_us": "CPU a message, us", "peak_memory_mb": "peak memory, MB",
    "p50_ms": "p50, ms", "p99_ms": "p99, ms", "p999_ms": "p99.9, ms", "most_ms": "most, ms",
    "cpu_ms_a_second": "CPU a second, ms", "sender_latest_ms": "the sender's latest, ms", "pss_mb": "PSS, MB",
    "rss_mb": "resident, MB", "cpu_s_a_minute": "CPU a minute, s", "memory_mb": "PSS, MB", "wall_s": "clock, s",
    "cpu_s": "CPU, s",
    "span_ms": "first to last, ms",
    "installed_s": "installed, s", "ready_s": "ready, s", "handled_s": "first message, s",
}  # fmt: skip
CONSUMED = {
    "consume-async": "one message a call",
    "consume-batch": "batches of 32",
    "consume-batch-typed": "batches of a model",
    "consume-orderly": "in order",
    "consume-threads": "plain functions on threads",
    "consume-1024-bytes": "1 KiB",
    "consume-tuned": "pulls of 1,024",
    "consume-tuned-batch": "pulls of 1,024, batches",
}

SENT = {
    "produce-batch": "batches of 100",
    "produce-accumulated": "256 at once, collected",
    "produce-concurrent": "256 at once, 1 KiB",
    "produce-one-way": "one-way, 1 KiB",
    "produce-single": "one after the other, 1 KiB",
}


def page(found: Found) -> str:
    """The Markdown."""
    drawn = pictures(found)
    lines = [
        "# Performance", "",
        "Drawn by `make bench-report` from the files in `benchmarks/results`, which `make bench-suite` measures anew.",
        "",
        "- Java's push consumer and the other clients ran in turns with ours, on the same broker.",
        "- Figures are medians. *Load* is the machine's average at the worst, *stolen* what its host took.",
        f"- What was measured above a load of {LOAD_MOST:g} settles nothing.",
        "", *_machine(found), "", "## What README says", "", *_bars(CLAIMS, found, of_readme=True),
        "", "## Bars", "", *_bars(BARS, found),
    ]  # fmt: skip
    for name, title, text in PLOTS:
        if f"performance-{name}.svg" in drawn:
            lines += ["", f"## {title}", "", text, "", f"![{title}]({PICTURES}/performance-{name}.svg)"]
    lines += ["", "## Every figure", ""]
    for each in SUITE:
        lines += _section(each, found.get(each.name))
    return "\n".join(lines).rstrip() + "\n"


def _machine(found: Found) -> list[str]:
    """One line where all files are of one machine."""
    said = {
        f"{host['cpus']} processors, {host['memory_mb'] / 1000:.0f} GB, {host['system']}, Python {host['python']}, "
        f"{host['java']}, RocketMQ {host['rocketmq']}": None
        for host in (each.host for each in found.values())
    }
    return [f"Machine: {text}." for text in said] or ["Nothing was measured yet."]


def _bars(bars: Sequence[Bar], found: Found, *, of_readme: bool = False) -> Iterator[str]:
    yield f"| {'README' if of_readme else 'What'} | {'Figure' if of_readme else 'Bar'} | Measured | |"
    yield "|---|---|---|---|"
    for bar in bars:
        measured, judgement = bar.said(found)
        first = [f'"{bar.readme}"', bar.what] if of_readme else [bar.what, f"{bar.bound} {bar.unit}"]
        yield f"| {' | '.join(first)} | {measured} | {judgement} |"


def _section(each: Measurement, results: Results | None) -> list[str]:
    lines = [f"### {each.name}", "", f"`python {' '.join(each.command())}`", ""]
    if results is None:
        return [*lines, "Not measured yet.", ""]
    names = list(dict.fromkeys(name for row in results.rows for name in row.figures))
    has_cases = results.cases() != [""]
    head = [*["case"] * has_cases, "side", *(NAMES.get(name, name) for name in names), "load", "stolen", "runs"]
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in sorted(results.rows, key=lambda row: (results.cases().index(row.case), row.who)):
        figures = [short(row.figures[name]) if name in row.figures else "" for name in names]
        cells = [*[row.case] * has_cases, row.who, *figures, *_busy(row), str(row.runs)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", f"Measured {results.at} at {results.commit}.", ""]


def _busy(row: Row) -> tuple[str, str]:
    return f"{row.load:.1f}", f"{row.stolen:.0%}"


PLOTS = (
    ("consuming", "Consuming", "A backlog, by our kinds of handlers; the Java push consumer in the same turns."),
    ("sending", "Sending", "Messages of 100 B, where nothing else is said; the Java producer in the same turns."),
    ("latency", "Latency", "From the write of a send to the handler, on a real broker, over messages a second."),
    ("growth", "What grows", "What a message costs with more queues, more groups in a process, and a longer backlog."),
    ("memory", "Memory", "Of all processes together while they consume; a page that several share counts in parts."),
    ("peers", "Other clients", "What a message costs, each client on its own kind of broker; logarithmic."),
)  # fmt: skip


def pictures(found: Found) -> dict[str, str]:
    """File name -> SVG; of what was measured."""
    drawn = {
        "consuming": _beside_java("Consuming a backlog", CONSUMED, found),
        "sending": _beside_java("Sending", SENT, found),
        "latency": _latency(found.get("latency")), "growth": _growth(found), "memory": _memory(found.get("memory")),
        "peers": _peers(found.get("peers")),
    }  # fmt: skip
    return {f"performance-{name}.svg": svg for name, svg in drawn.items() if svg}


def _beside_java(title: str, kinds: Mapping[str, str], found: Found) -> str:
    charts = []
    for figure in ("rate", "cpu_per_message_us"):
        values: dict[str, float] = {}
        for name, label in kinds.items():
            for who, text in (("ours", label), ("java", f"Java: {label}")):
                if name in found and (value := found[name].of(who, figure)) is not None:
                    values[text] = value
        ours = frozenset(label for label in values if not label.startswith("Java"))
        charts.append(Bars(title=NAMES[figure], values=values, strong=ours))
    return drawn_bars(title, charts) if kinds.keys() & found.keys() else ""


def _latency(results: Results | None) -> str:
    if results is None:
        return ""
    panels = [
        Panel(title=NAMES[figure], lines={who: _points(results, who, figure) for who in ("ours", "java")}, floor=0.01)
        for figure in ("p50_ms", "p99_ms", "p999_ms", "cpu_ms_a_second")
    ]
    return drawn_lines("Latency over messages a second", ("ours", "java"), panels)


def _growth(found: Found) -> str:
    panels = []
    for part, title in (("queues", "over queues"), ("groups", "over groups"), ("backlog", "over the backlog")):
        results = found.get("growth-backlog" if part == "backlog" else "growth")
        if results is not None:
            lines = {who: _points(results, who, "cpu_per_message_us", part) for who in ("ours", "java")}
            panels.append(Panel(title=f"CPU a message, us, {title}", lines=lines, floor=0.01))
    return drawn_lines("What a message costs as things grow", ("ours", "java"), panels) if panels else ""


def _points(results: Results, who: str, figure: str, part: str = "") -> list[tuple[float, float]]:
    """By the number in each case."""
    return sorted(
        (float(row.case.rpartition(" ")[2]), row.figures[figure])
        for row in results.rows
        if row.who == who and figure in row.figures and row.case.rpartition(" ")[0] == part
    )


def _memory(results: Results | None) -> str:
    if results is None:
        return ""
    values = {
        "Java, one process" if row.who == "java" else f"ours, {row.case} {'process' if row.case == '1' else 'workers'}":
        row.figures["pss_mb"]
        for row in results.rows
    }  # fmt: skip
    ours = frozenset(name for name in values if name.startswith("ours"))
    return drawn_bars("Memory while consuming", [Bars(title="PSS, MB", values=values, strong=ours)])


def _peers(results: Results | None) -> str:
    if results is None:
        return ""
    rows = sorted(results.rows, key=lambda row: row.figures["cpu_per_message_us"])
    values = {row.who: row.figures["cpu_per_message_us"] for row in rows}
    ours = frozenset(name for name in values if name.startswith("ours"))
    bars = Bars(title="processor time a message, us", values=values, strong=ours, is_log=True)
    return drawn_bars("What a message costs other clients", [bars])


def write(results: Path, docs: Path) -> list[Path]:
    """The page and its plots; plots of what is no longer measured go."""
    found = read_all(results)
    folder = docs / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    drawn = pictures(found)
    for old in folder.glob("performance-*.svg"):
        if old.name not in drawn:
            old.unlink()
    for name, svg in drawn.items():
        (folder / name).write_text(svg)
    (docs / "performance.md").write_text(page(found))
    return [docs / "performance.md", *(folder / name for name in drawn)]


def main(arguments: list[str] | None = None) -> int:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description=about)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="FOLDER")
    options = parser.parse_args(arguments)
    for path in write(options.results, options.docs):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
