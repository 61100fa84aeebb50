"""Plot: four figures of each phase over the number of members, as one SVG without a library.

Both axes are logarithmic, so what grows with the members is as steep as the dotted line in each panel. Colours are
of Okabe and Ito's palette, darkened or lightened by the reader's scheme; each phase has a dash of its own as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.scale.drill import PHASES

WIDTH, HEIGHT = 860, 640
LEFT, TOP, PANEL_W, PANEL_H, GAP_X, GAP_Y = 62, 92, 330, 210, 88, 78
STYLES = (
    ("#0072b2", ""),
    ("#888888", "2 3"),
    ("#009e73", "8 3"),
    ("#d55e00", ""),
    ("#b0558f", "8 3 2 3"),
    ("#a67c00", "5 5"),
    ("#c03030", "1 2"),
)
"""Colour and dash of each phase."""
CSS = (
    "text{fill:#333}.axis{stroke:#777}.grid{stroke:#8884}.even{stroke:#777;stroke-dasharray:1 4}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.axis{stroke:#aaa}.even{stroke:#aaa}}"
)


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    value: Callable[[dict[str, Any]], float | None]
    floor: float
    """What is less is drawn here."""


PANELS = (
    Panel("queue moves", lambda found: found["moves"] or None, 1),
    Panel("virtual seconds to rest", lambda found: found["rest_s"] if found["moves"] else None, 0.1),
    Panel("requests per broker and virtual second", lambda found: found["mean"], 1),
    Panel("processor seconds a virtual minute", lambda found: found["cpu_a_minute"], 0.1),
)


def drawn(runs: Sequence[dict[str, Any]]) -> str:
    """The SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"',
        f' font-family="sans-serif" font-size="12"><style>{CSS}</style>',
        "<title>What grows with the members of a group</title>",
    ]
    for at, (phase, (colour, dash)) in enumerate(zip(PHASES, STYLES, strict=True)):
        x, y = LEFT + at % 4 * 200, 18 + at // 4 * 22
        parts.append(
            f'<path d="M{x},{y}h26" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/>'
            f'<text x="{x + 33}" y="{y + 4}">{phase}</text>'
        )
    x, y = LEFT + 600, 40
    parts.append(f'<path class="even" d="M{x},{y}h26"/><text x="{x + 33}" y="{y + 4}">as the members</text>')
    for at, panel in enumerate(PANELS):
        parts += _panel(panel, runs, LEFT + at % 2 * (PANEL_W + GAP_X), TOP + at // 2 * (PANEL_H + GAP_Y))
    return "".join([*parts, "</svg>\n"])


def _panel(panel: Panel, runs: Sequence[dict[str, Any]], left: float, top: float) -> list[str]:
    sizes = [run["members"] for run in runs]
    found = {
        phase: [
            (run["members"], max(value, panel.floor))
            for run in runs
            if phase in run["phases"] and (value := panel.value(run["phases"][phase])) is not None
        ]
        for phase in PHASES
    }
    values = [value for points in found.values() for _, value in points] or [panel.floor]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.001))
    x_of = _scale(min(sizes), max(sizes), left, left + PANEL_W)
    y_of = _scale(low, high, top + PANEL_H, top)
    parts = [f'<text x="{left}" y="{top - 10}" font-weight="bold">{panel.title}</text>']
    step = low
    while step <= high * 1.001:
        y = y_of(step)
        parts.append(
            f'<path class="grid" d="M{left:.1f},{y:.1f}h{PANEL_W}"/>'
            f'<text x="{left - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{step:,g}</text>'
        )
        step *= 10
    under = top + PANEL_H + 17
    parts += [f'<text x="{x_of(size):.1f}" y="{under}" text-anchor="middle">{size:,}</text>' for size in sizes]
    parts.append(f'<path class="axis" fill="none" d="M{left:.1f},{top}v{PANEL_H}h{PANEL_W}"/>')
    far = min(max(sizes), min(sizes) * high / low)
    parts.append(
        f'<path class="even" d="M{x_of(min(sizes)):.1f},{y_of(low):.1f}L{x_of(far):.1f},'
        f'{y_of(low * far / min(sizes)):.1f}"/>'
    )
    for (colour, dash), points in zip(STYLES, found.values(), strict=True):
        line = " ".join(f"{x_of(size):.1f},{y_of(value):.1f}" for size, value in points)
        if points:
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
            )
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.6" fill="{colour}"/>' for x, y in points]
    return parts


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = math.log10(high / low) or 1.0
    return lambda value: start + (end - start) * math.log10(value / low) / span
