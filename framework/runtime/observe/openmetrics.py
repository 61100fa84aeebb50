"""OpenMetrics text: families of samples to lines. It knows no application.

Written here and not by prometheus-client: that library keeps a second state of every figure, and what we have is a
snapshot, of one process or of several, to be written down once a scrape. Labels come from outside (names of topics,
groups, plugins): they are escaped, shortened, and bounded in number; what is beyond becomes `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SERIES_MAX = 1000
"""Of one metric."""
LABEL_MAX = 255
"""As long as the longest name of a group. What is alike so far is one series: a scraper refuses two of one name."""
EXAMPLE_RUNES_MAX = 128
"""Names and values of an exemplar together, by the standard."""
OTHER = "other"

Labels: TypeAlias = tuple[tuple[str, str], ...]
Merge: TypeAlias = Callable[[float, float], float]
Kind: TypeAlias = Literal["counter", "gauge", "info", "histogram"]


def added(one: float, other: float) -> float:
    return one + other


@dataclass(frozen=True, slots=True)
class Sample:
    labels: Labels
    value: float

    @property
    def amount(self) -> float:
        return self.value

    def plus(self, other: Sample) -> Sample:
        return Sample(self.labels, self.value + other.value)


@dataclass(frozen=True, slots=True)
class Times:
    """A histogram's sample: as `model.snapshot.HistogramSnapshot`, read back from JSON or not."""

    labels: Labels
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
    examples: tuple[Mapping[str, Any] | None, ...] = ()

    @property
    def amount(self) -> float:
        """How many were timed."""
        return sum(self.counts)

    def plus(self, other: Times) -> Times:
        """The sum; labels, and examples where both have one, are its own."""
        counts = tuple(one + more for one, more in zip(self.counts, other.counts, strict=True))
        examples = tuple(one or more for one, more in zip(self.examples, other.examples, strict=True))
        return Times(self.labels, self.bounds, counts, self.total + other.total, examples)


@dataclass(slots=True)
class Family:
    """All samples of one metric."""

    name: str
    kind: Kind
    help: str
    merge: Merge = added
    """What becomes of two samples with the same labels, of two processes."""
    samples: dict[Labels, float] = field(default_factory=dict)
    times: dict[Labels, Times] = field(default_factory=dict)

    def add(self, sample: Sample | Times) -> None:
        labels: Labels = tuple((name, _clean(value)[:LABEL_MAX]) for name, value in sample.labels)
        known: Mapping[Labels, object] = self.samples if isinstance(sample, Sample) else self.times
        if labels not in known and len(known) >= SERIES_MAX:
            labels = tuple((name, OTHER) for name, _ in labels)
        if isinstance(sample, Sample):
            before = self.samples.get(labels)
            self.samples[labels] = sample.value if before is None else self.merge(before, sample.value)
        else:
            times = self.times.get(labels)
            self.times[labels] = replace(sample, labels=labels) if times is None else times.plus(sample)

    @property
    def grows(self) -> bool:
        """Whether it only grows, for as long as a process lives."""
        return self.kind in {"counter", "histogram"}


def text_of(families: Iterable[Family]) -> str:
    lines: list[str] = []
    for family in families:
        lines += (f"# TYPE {family.name} {family.kind}", f"# HELP {family.name} {_escaped(family.help)}")
        match family.kind:
            case "histogram":
                for each in family.times.values():
                    lines += _histogram(family.name, each)
            case kind:
                suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
                lines += (
                    f"{family.name}{suffix}{_labels(labels)} {_number(value)}"
                    for labels, value in sorted(family.samples.items())
                )
    return "\n".join([*lines, "# EOF", ""])


def _histogram(name: str, times: Times) -> Iterator[str]:
    total = 0
    bounds = [*(_number(bound) for bound in times.bounds), "+Inf"]
    examples = times.examples or (None,) * len(bounds)
    for bound, count, example in zip(bounds, times.counts, examples, strict=True):
        total += count
        yield f"{name}_bucket{_labels((*times.labels, ('le', bound)))} {total}{_example(example)}"
    yield f"{name}_count{_labels(times.labels)} {total}"
    yield f"{name}_sum{_labels(times.labels)} {_number(times.total)}"


def _example(example: Mapping[str, Any] | None) -> str:
    if example is None:
        return ""
    name, value = ("trace_id", example["trace_id"]) if example["trace_id"] else ("message_id", example["message_id"])
    value = _clean(str(value))[: EXAMPLE_RUNES_MAX - len(name)]
    return f' # {{{name}="{_escaped(value)}"}} {_number(example["seconds"])} {example["at_ms"] / 1000:.3f}'


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _clean(text: str) -> str:
    """Whatever a terminal or a page could take for more than a sign becomes a question mark."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
