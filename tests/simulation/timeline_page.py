"""The timeline as one self-contained page: lanes of processes and queues, faults, deliveries, and the lines below.

No script, no request: it can be attached to a report and opened anywhere. Hovering shows the details.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from framework.testing.errors import Violation
from tests.simulation.facts import Committed, Fault, Finished, Life
from tests.simulation.history import History
from tests.simulation.timeline import ENDS, lines, ownership

LEFT, WIDTH, LANE = 190, 1400, 22
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#332288", "#bb5566", "#117733")
_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px; color: #222; background: #fff; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin: 24px 0 8px; }
pre { background: #f6f6f4; padding: 12px; overflow-x: auto; font-size: 12px; }
.broken { background: #fdecea; border-left: 4px solid #b3261e; padding: 8px 12px; margin: 6px 0; }
.held { background: #e8f3ea; border-left: 4px solid #228833; padding: 8px 12px; }
.legend span { display: inline-block; margin-right: 14px; }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 4px; vertical-align: -1px; }
text { font: 11px system-ui, sans-serif; fill: #333; }
code { background: #f0f0ee; padding: 1px 4px; }
"""


_EXPLANATION = (
    "Above: processes, with faults as triangles. Below: each queue of each group, coloured by its owner; a dot is a "
    "handler that ended, a red one a handler that failed, a tick below the line a committed offset. Time runs to the "
    "right, in virtual seconds. Hovering shows what and who."
)


def page(history: History, violations: Sequence[Violation], *, title: str, replay: str) -> str:
    """The whole page."""
    return "\n".join(
        (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>',
            f"<style>{_STYLE}</style>",
            f"<h1>{escape(title)}</h1><p>Run it again: <code>{escape(replay)}</code></p>",
            *_verdict(violations),
            "<h2>Who ran and who owned which queue</h2>",
            f"<p>{_EXPLANATION}</p>",
            _legend(history),
            _drawing(history, violations),
            f"<h2>Line by line</h2><pre>{escape(chr(10).join(lines(history, violations)))}</pre></html>",
        )
    )


def _verdict(violations: Sequence[Violation]) -> list[str]:
    if not violations:
        return ['<p class="held">Every promise held.</p>']
    return [
        f'<p class="broken"><b>{escape(violation.truth)}</b> at {violation.at:.3f}s: {escape(violation.fact)}</p>'
        for violation in violations
    ]


def _machine(who: str) -> str:
    return who.partition(".")[0]


def _machines(history: History) -> list[str]:
    return list(dict.fromkeys(_machine(fact.who) for fact in history.of(Life)))


def _colour(history: History, who: str) -> str:
    machines = _machines(history)
    machine = _machine(who)
    return COLOURS[machines.index(machine) % len(COLOURS)] if machine in machines else "#888888"


def _legend(history: History) -> str:
    marks = "".join(
        f'<span><i style="background:{_colour(history, name)}"></i>{escape(name)}</span>' for name in _machines(history)
    )
    return f'<p class="legend">{marks}</p>'


class _Canvas:
    """Where things are drawn: time to x, lanes to y."""

    def __init__(self, end: float) -> None:
        self.end = max(end, 0.001)
        self.parts: list[str] = []
        self.lanes = 0

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * at / self.end

    def lane(self, name: str) -> float:
        y = 30 + self.lanes * LANE
        self.lanes += 1
        self.parts.append(f'<text x="4" y="{y + 4:.0f}">{escape(name)}</text>')
        self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#eee"/>')
        return y

    def bar(self, begin: float, end: float, y: float, colour: str, hint: str) -> None:
        width = max(self.x(end) - self.x(begin), 1.0)
        self.parts.append(
            f'<rect x="{self.x(begin):.1f}" y="{y - 7:.1f}" width="{width:.1f}" height="14" fill="{colour}" '
            f'opacity="0.45"><title>{escape(hint)}</title></rect>'
        )

    def dot(self, at: float, y: float, colour: str, hint: str) -> None:
        self.parts.append(
            f'<circle cx="{self.x(at):.1f}" cy="{y:.1f}" r="2.2" fill="{colour}"><title>{escape(hint)}</title></circle>'
        )

    def triangle(self, at: float, y: float, hint: str) -> None:
        x = self.x(at)
        self.parts.append(
            f'<path d="M{x:.1f} {y + 6:.1f} l-5 -11 h10 z" fill="#b3261e"><title>{escape(hint)}</title></path>'
        )

    def tick(self, at: float, y: float, hint: str) -> None:
        x = self.x(at)
        self.parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 7:.1f}" y2="{y + 10:.1f}" stroke="#333"><title>{escape(hint)}'
            "</title></line>"
        )

    def finish(self, broken: Sequence[Violation]) -> str:
        height = 40 + self.lanes * LANE
        for second in range(int(self.end) + 1):
            if second % max(1, round(self.end / 20)) == 0:
                x = self.x(second)
                self.parts.append(f'<text x="{x:.1f}" y="12" text-anchor="middle">{second}</text>')
                self.parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{height}" stroke="#f0f0f0"/>')
        for violation in broken:
            x = self.x(violation.at)
            hint = escape(f"{violation.truth}: {violation.fact}")
            self.parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{height}" stroke="#b3261e" stroke-dasharray="4 2">'
                f"<title>{hint}</title></line>"
            )
        body = "\n".join(self.parts)
        return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">{body}</svg>'


def _drawing(history: History, violations: Sequence[Violation]) -> str:
    end = history.facts[-1].at if history.facts else 0.0
    canvas = _Canvas(end)
    _draw_processes(canvas, history, end)
    _draw_queues(canvas, history)
    return canvas.finish(violations)


def _draw_processes(canvas: _Canvas, history: History, end: float) -> None:
    for machine in _machines(history):
        y = canvas.lane(machine)
        colour = _colour(history, machine)
        facts = [fact for fact in history.of(Life) if _machine(fact.who) == machine]
        for who, group in groupby(facts, key=lambda fact: fact.who):
            life = list(group)
            last = life[-1]
            until = last.at if last.event in ENDS else end
            canvas.bar(life[0].at, until, y, colour, f"{who}: {', '.join(f'{f.event} at {f.at:.3f}s' for f in life)}")
        for fault in history.of(Fault):
            if fault.who == machine:
                canvas.triangle(fault.at, y, f"{fault.at:.3f}s {fault.kind}: {fault.detail}")
    others = [fault for fault in history.of(Fault) if fault.who not in _machines(history)]
    if others:
        y = canvas.lane("everybody")
        for fault in others:
            canvas.triangle(fault.at, y, f"{fault.at:.3f}s {fault.who}: {fault.kind} {fault.detail}")


def _draw_queues(canvas: _Canvas, history: History) -> None:
    spans = ownership(history)
    for (group, queue), owned in groupby(spans, key=lambda span: (span.group, span.queue)):
        y = canvas.lane(f"{group} {queue}")
        for span in owned:
            hint = f"{span.who} from {span.begin:.3f}s to {span.end:.3f}s"
            canvas.bar(span.begin, span.end, y, _colour(history, span.who), hint)
        for fact in history.facts:
            if type(fact) is Finished and fact.group == group and str(fact.queue) == queue:
                colour = _colour(history, fact.who) if fact.is_ok else "#b3261e"
                hint = f"{fact.at:.3f}s {fact.who} {fact.outcome} offset {fact.offset} {fact.message_id}"
                canvas.dot(fact.at, y, colour, f"{hint} attempt {fact.attempt}")
            elif type(fact) is Committed and fact.group == group and str(fact.queue) == queue:
                canvas.tick(fact.at, y, f"{fact.at:.3f}s {fact.by} committed {fact.offset}")
