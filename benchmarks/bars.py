"""What the project means to reach, and what README says: each a figure of one file of results, held against a bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.plots import short
from benchmarks.results import Results

Figure = Callable[[Results], float | None]
BYTES_100 = "a backlog of a million messages of 100 B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One figure and its bound."""

    what: str
    name: str
    """Of the file of results."""
    figure: Figure
    least: float | None = None
    most: float | None = None
    unit: str = "x Java's"
    readme: str = ""
    """The words of README that stand on it."""

    def value(self, results: Mapping[str, Results]) -> float | None:
        found = results.get(self.name)
        return None if found is None else self.figure(found)

    def holds(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def bound(self) -> str:
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"

    def said(self, results: Mapping[str, Results]) -> tuple[str, str]:
        """The figure and the judgement, in words."""
        value = self.value(results)
        if value is None:
            return "", "not measured"
        if not results[self.name].is_settled:
            return f"{short(value)} {self.unit}", f"not settled: load {results[self.name].load:.0f}"
        return f"{short(value)} {self.unit}", "met" if self.holds(value) else "**not met**"


def _ratio(figure: str, case: str = "", *, ours: str = "ours", java_case: str | None = None) -> Figure:
    return lambda found: found.ratio(figure, case, ours=ours, java_case=java_case)


def _ours(figure: str, case: str = "") -> Figure:
    return lambda found: found.of("ours", figure, case)


def _beside(figure: str, who: str, without: str) -> Figure:
    """Ours with something over ours without it."""

    def ratio(found: Results) -> float | None:
        one, other = found.of(who, figure), found.of(without, figure)
        return one / other if one is not None and other else None

    return ratio


def _spread(part: str) -> Figure:
    """The dearest size's cost a message over the smallest one's."""

    def spread(found: Results) -> float | None:
        costs = [
            cost
            for case in found.cases()
            if case.startswith(f"{part} ") and (cost := found.of("ours", "cpu_per_message_us", case)) is not None
        ]
        return max(costs) / costs[0] if len(costs) > 1 else None

    return spread


RATE, CPU, PEAK = "rate", "cpu_per_message_us", "peak_memory_mb"
BARS = (
    Bar(what="async handler: rate", name="consume-async", figure=_ratio(RATE), least=2.7),
    Bar(what="async handler: CPU a message", name="consume-async", figure=_ratio(CPU), most=0.20),
    Bar(what="pulls of 1,024: rate", name="consume-tuned", figure=_ratio(RATE), least=4),
    Bar(what="pulls of 1,024: CPU a message", name="consume-tuned", figure=_ratio(CPU), most=0.22),
    Bar(what="1 KiB: rate", name="consume-1024-bytes", figure=_ratio(RATE), least=2.5),
    Bar(what="1 KiB: CPU a message", name="consume-1024-bytes", figure=_ratio(CPU), most=0.20),
    Bar(what="batches of 32: rate", name="consume-batch", figure=_ratio(RATE), least=2.7),
    Bar(what="batches of 32: CPU a message", name="consume-batch", figure=_ratio(CPU), most=0.20),
    Bar(what="batches of a model: CPU a message", name="consume-batch-typed", figure=_ratio(CPU), most=0.30),
    Bar(
        what="batches, pulls of 1,024: CPU a message", name="consume-tuned-batch", figure=_ours(CPU), most=1.2,
        unit="us",
    ),
    Bar(what="orderly: rate of Java's orderly", name="consume-orderly", figure=_ratio(RATE), least=2.5),
    Bar(what="orderly: CPU a message", name="consume-orderly", figure=_ratio(CPU), most=0.25),
    Bar(
        what="model, retries and three plugins: CPU a message", name="consume-features",
        figure=_ratio(CPU, ours="full"), most=0.32,
    ),
    Bar(what="memory of one process (PSS)", name="memory", figure=_ratio("pss_mb", "1"), most=0.12),
    Bar(
        what="memory of four workers (PSS), of one Java process", name="memory",
        figure=_ratio("pss_mb", "4", java_case="1"), most=0.3,
    ),
    Bar(what="start of `run`: CPU", name="start", figure=_ours("cpu_s", "run"), most=0.45, unit="s"),
    Bar(what="start of the built-in broker: CPU", name="start", figure=_ours("cpu_s", "box"), most=0.2, unit="s"),
    Bar(what="sending batches: rate", name="produce-batch", figure=_ratio(RATE), least=1),
    Bar(what="sending batches: CPU a message", name="produce-batch", figure=_ratio(CPU), most=0.5),
    Bar(what="256 sends at once: CPU each", name="produce-concurrent", figure=_ours(CPU), most=35, unit="us"),
    Bar(what="latency at 1,000/s: p99", name="latency", figure=_ratio("p99_ms", "1000"), most=1),
    Bar(what="8 to 1,024 queues: cost a message", name="growth", figure=_spread("queues"), most=1.15, unit="x"),
    Bar(
        what="backlogs up to 10,000,000: cost a message", name="growth-backlog", figure=_spread("backlog"), most=1.15,
        unit="x",
    ),
    Bar(
        what="1,000 idle queues: CPU a minute", name="growth", figure=_ours("cpu_s_a_minute", "idle 1000"), most=0.5,
        unit="s",
    ),
)  # fmt: skip
CLAIMS = (
    Bar(
        what=f"rate, {BYTES_100}", name="consume-async", figure=_ratio(RATE), least=2,
        readme="more than twice its rate",
    ),
    Bar(
        what=f"CPU a message, {BYTES_100}", name="consume-async", figure=_ratio(CPU), most=0.334,
        readme="under a third of its CPU time per message",
    ),
    Bar(
        what=f"peak memory, {BYTES_100}", name="consume-async", figure=_ratio(PEAK), most=0.15,
        readme="a seventh of its memory",
    ),
    Bar(
        what="an empty folder: installed after", name="first-steps", figure=_ours("installed_s"), most=50, unit="s",
        readme="installed after 50 s",
    ),
    Bar(
        what="an empty folder: ready after", name="first-steps", figure=_ours("ready_s"), most=53, unit="s",
        readme="ready after 53 s",
    ),
    Bar(
        what="an empty folder: first message handled after", name="first-steps", figure=_ours("handled_s"), most=56,
        unit="s", readme="the first message handled after 56 s",
    ),
)  # fmt: skip
