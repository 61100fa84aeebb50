"""The timeline: what a stranger reads when a run has broken a promise."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation.facts import Acquired, Fact, Fault, Finished, Life, Reassigned, Said, Sent
from tests.simulation.history import History
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play
from tests.simulation.timeline import Span, lines, ownership
from tests.simulation.timeline_page import page

QUEUE = MessageQueue("orders", "broker-a", 0)


def finished(offset: int, at: float, outcome: str = "ok") -> Finished:
    return Finished(at, "app-1.1", "billing", f"m{offset}", QUEUE, offset, 1, outcome)


def told(*facts: Fact, violations: tuple[Violation, ...] = ()) -> list[str]:
    return [re.sub(r" +", " ", line).strip() for line in lines(History(0, facts=list(facts)), violations)]


def test_what_went_well_is_told_in_ranges() -> None:
    assert ["1.300 app-1.1 handled orders@broker-a:0 4 to 6 for billing, since 1.100"] == told(
        finished(4, 1.1), finished(5, 1.2), finished(6, 1.3)
    )


def test_a_range_ends_where_something_happens() -> None:
    story = told(
        Life(0.0, "app-1.1", "started"),
        finished(4, 1.1),
        Fault(1.2, "app-1", "cut", "cut off for 3.0s"),
        finished(5, 1.3),
        finished(6, 1.4, "failed"),
        Sent(1.5, "producer.1", "m9", QUEUE, 9),
        Said(1.6, "app-1.1", "info", "connected", {}),
        Said(1.7, "app-1.1", "warning", "pull failed", {"reason": "gone"}),
    )
    assert [
        "0.000 app-1.1 started",
        "1.100 app-1.1 handled orders@broker-a:0 4 for billing",
        "1.200 app-1 FAULT cut: cut off for 3.0s",
        "1.300 app-1.1 handled orders@broker-a:0 5 for billing",
        "1.400 app-1.1 failed: orders@broker-a:0 6 for billing, attempt 1",
        "1.700 app-1.1 says 'pull failed' reason=gone",
    ] == story


def test_a_broken_promise_stands_where_it_broke() -> None:
    broken = (Violation("nothing lost", "m1", 1.15), Violation("progress", "stuck", 9.0))
    story = told(finished(4, 1.1), finished(5, 1.2), violations=broken)
    assert "BROKEN: nothing lost: m1" in story[1]
    assert "BROKEN: progress: stuck" in story[-1]


def test_who_owned_which_queue_when() -> None:
    name = str(QUEUE)
    history = History(
        0,
        facts=[
            Acquired(1.0, "app-1.1", "billing", name, 0),
            Reassigned(3.0, "app-1.1", "billing", (), (name,)),
            Acquired(3.5, "app-2.1", "billing", name, 5),
            Life(6.0, "app-2.1", "crashed"),
            Acquired(7.0, "app-1.1", "billing", name, 5),
            Life(9.0, "broker.1", "crashed"),
        ],
    )
    assert [
        Span("billing", name, "app-1.1", 1.0, 3.0),
        Span("billing", name, "app-2.1", 3.5, 6.0),
        Span("billing", name, "app-1.1", 7.0, 9.0),
    ] == ownership(history)


class Reader(HTMLParser):
    """Finds what a page would load, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "line", "path", "rect", "circle", "i", "p", "html", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            self.open.remove(tag)


def test_the_page_of_a_failing_seed_shows_what_happened() -> None:
    """Broken on purpose: commits pass the first gap."""
    seeds = (play(draw(seed, seconds=20), mutants=("commits stop at the first gap",)) for seed in range(5, 60))
    verdict, history = next(
        (verdict, history)
        for verdict, history in seeds
        if any(re.search(r"passes a gap.* of orders@broker-.* billing;", str(each)) for each in verdict.violations)
    )
    text = page(history, verdict.violations, title="Seed <0>", replay="python -m tests.simulation.one --seed 0")

    reader = Reader()
    reader.feed(text)
    assert [] == reader.loads
    assert [] == reader.open
    assert "Seed &lt;0&gt;" in text
    assert "python -m tests.simulation.one --seed 0" in text
    assert "a commit never passes a gap" in text
    assert re.search(r"billing orders@broker-[ab]:\d", text)
    assert text.count("<circle") > 20
    assert text.count('fill="#b3261e"') >= 1


def test_a_run_that_held_says_so() -> None:
    verdict, history = play(draw(4, seconds=5))
    assert verdict.is_ok
    assert "Every promise held." in page(history, (), title="t", replay="r")
