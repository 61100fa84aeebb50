"""Timeline: a history as lines that a person can read, and which member owned which queue when.

Text for terminals is made here; `timeline_page.py` draws the same as one page of HTML. Neither judges anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from framework.testing.errors import Violation
from tests.simulation.facts import (
    Acquired,
    Bent,
    Copied,
    Fact,
    Fault,
    Finished,
    Life,
    Reassigned,
    Said,
    Strange,
    Unexpected,
)
from tests.simulation.history import History
from tests.simulation.ways.facts import Decided

WARNINGS = ("warning", "error", "exception", "critical")
ENDS = ("crashed", "lost power", "left")
BREAK = ">>>>>>>>>>>> BROKEN"


@dataclass(frozen=True, slots=True)
class Span:
    """One process's time with one queue of one group."""

    group: str
    queue: str
    who: str
    begin: float
    end: float


def ownership(history: History) -> list[Span]:
    """Who owned which queue when, as each process itself believed."""
    last = history.facts[-1].at if history.facts else 0.0
    begun: dict[tuple[str, str, str], float] = {}
    spans: list[Span] = []

    def close(who: str, group: str, queue: str, at: float) -> None:
        since = begun.pop((who, group, queue), None)
        if since is not None:
            spans.append(Span(group, queue, who, since, at))

    for fact in history.facts:
        if type(fact) is Acquired:
            begun.setdefault((fact.who, fact.group, fact.queue), fact.at)
        elif type(fact) is Reassigned:
            for queue in fact.lost:
                close(fact.who, fact.group, queue, fact.at)
        elif type(fact) is Life and fact.event in ENDS:
            for who, group, queue in [key for key in begun if key[0] == fact.who]:
                close(who, group, queue, fact.at)
    for who, group, queue in list(begun):
        close(who, group, queue, last)
    return sorted(spans, key=lambda span: (span.group, span.queue, span.begin))


def lines(history: History, violations: Iterable[Violation] = ()) -> Iterator[str]:
    """What happened, in order; messages handled well are told as ranges of offsets."""
    broken = sorted(violations, key=lambda violation: violation.at)
    runs: dict[tuple[str, str, str], list[Finished]] = {}

    def told(run: list[Finished]) -> str:
        first, last = run[0], run[-1]
        offsets = str(first.offset) if first is last else f"{first.offset} to {last.offset}"
        since = "" if first is last else f", since {first.at:.3f}"
        return _line(last.at, last.who, f"handled {last.queue} {offsets} for {last.group}{since}")

    def ended(key: tuple[str, str, str] | None = None) -> Iterator[str]:
        for each in [key] if key is not None else list(runs):
            run = runs.pop(each, None)
            if run:
                yield told(run)

    for fact in history.facts:
        while broken and broken[0].at <= fact.at:
            yield from ended()
            yield _broken(broken.pop(0))
        if type(fact) is Finished and fact.is_ok:
            key = (fact.who, fact.group, str(fact.queue))
            run = runs.get(key)
            if run and fact.offset != run[-1].offset + 1:
                yield from ended(key)
            runs.setdefault(key, []).append(fact)
            continue
        text = describe(fact)
        if text is not None:
            yield from ended()
            yield _line(fact.at, fact.who, text)
    yield from ended()
    for violation in broken:
        yield _broken(violation)


def describe(fact: Fact) -> str | None:
    """The fact in words; None for what is too common to be told one by one."""
    match fact:
        case Fault():
            return f"FAULT {fact.kind}: {fact.detail}" if fact.detail else f"FAULT {fact.kind}"
        case Bent():
            return f"RARE {fact.mark}: {fact.what}"
        case Life():
            return fact.event
        case Acquired():
            return f"begins with {fact.queue} at {fact.offset} for {fact.group}"
        case Reassigned():
            gained = f" gains {', '.join(fact.gained)}" if fact.gained else ""
            lost = f" loses {', '.join(fact.lost)}" if fact.lost else ""
            return f"{fact.group}:{gained}{lost}"
        case Decided():
            return f"{fact.deal}: {fact.state}"
        case Finished():
            return f"{fact.outcome}: {fact.queue} {fact.offset} for {fact.group}, attempt {fact.attempt}"
        case Copied():
            return f"keeps a copy of {fact.message_id} for {fact.group}"
        case Strange() | Unexpected():
            return f"UNEXPECTED {fact.what}"
        case Said() if fact.level in WARNINGS:
            fields = " ".join(f"{key}={value}" for key, value in fact.fields.items())
            return f"says {fact.event!r} {fields}"
        case _:
            return None


def _line(at: float, who: str, text: str) -> str:
    return f"{at:10.3f}  {who:<12} {text}"


def _broken(violation: Violation) -> str:
    return f"{violation.at:10.3f}  {BREAK}: {violation.truth}: {violation.fact}"
