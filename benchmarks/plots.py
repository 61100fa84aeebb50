"""Plots as SVG without a library: lines over logarithmic axes, and bars beside their names.

It knows nothing of what was measured. Colours are of Okabe and Ito's palette, darkened or lightened by the reader's
scheme; each line has a dash of its own as well.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WIDTH, LEFT, RIGHT, PANEL_W, PANEL_H, GAP_X, GAP_Y = 860, 62, 50, 330, 210, 88, 78
LEGEND_COLUMNS, LEGEND_W, LEGEND_H = 4, 200, 22
BAR_H, BAR_LEFT, BAR_W = 21, 250, 450
STYLES = (
    ("#0072b2", ""),
    ("#888888", "2 3"),
    ("#009e73", "8 3"),
    ("#d55e00", ""),
    ("#b0558f", "8 3 2 3"),
    ("#a67c00", "5 5"),
    ("#c03030", "1 2"),
)
"""Colour and dash of each line, in the order of their names."""
CSS = (
    "text{fill:#333}.axis{stroke:#777}.grid{stroke:#8884}.even{stroke:#777;stroke-dasharray:1 4}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.axis{stroke:#aaa}.even{stroke:#aaa}}"
)
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes. A line that is not in it was not measured there."""

    title: str
    lines: Mapping[str, Sequence[Point]]
    floor: float = 1e-9
    """What is less is drawn here: a logarithm has no zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Values beside their names. Those of `strong` stand out."""

    title: str
    values: Mapping[str, float]
    strong: frozenset[str] = frozenset()
    is_log: bool = False


def drawn_lines(title: str, names: Sequence[str], panels: Sequence[Panel], *, even: str = "") -> str:
    """The SVG: two panels a row, a legend above. `even` names a dotted line in each that is as steep as x itself."""
    shown = [*names, *[even] * bool(even)]
    top = 48 + LEGEND_H * math.ceil(len(shown) / LEGEND_COLUMNS)
    rows = math.ceil(len(panels) / 2)
    parts = [_head(title, top + rows * PANEL_H + (rows - 1) * GAP_Y + 50)]
    for at, name in enumerate(shown):
        x, y = LEFT + at % LEGEND_COLUMNS * LEGEND_W, 18 + at // LEGEND_COLUMNS * LEGEND_H
        style = 'class="even"' if at == len(names) else _stroke(at, 2.5)
        parts.append(f'<path d="M{x},{y}h26" {style}/><text x="{x + 33}" y="{y + 4}">{html.escape(name)}</text>')
    for at, panel in enumerate(panels):
        x, y = LEFT + at % 2 * (PANEL_W + GAP_X), top + at // 2 * (PANEL_H + GAP_Y)
        parts += _panel(panel, names, x, y, has_even=bool(even))
    return "".join([*parts, "</svg>\n"])


def drawn_bars(title: str, charts: Sequence[Bars]) -> str:
    """The SVG: one chart below the other."""
    height = sum(46 + BAR_H * len(chart.values) for chart in charts)
    parts, top = [_head(title, height + 12)], 0.0
    for chart in charts:
        top += 26
        parts.append(f'<text x="8" y="{top}" font-weight="bold">{html.escape(chart.title)}</text>')
        top += 12
        most = max(chart.values.values(), default=1.0) or 1.0
        low = 10 ** math.floor(math.log10(max(min(chart.values.values(), default=1.0), 1e-6)))
        reach = _log_scale(low, most * 1.001, BAR_W * 0.04, BAR_W) if chart.is_log else _scale(most, BAR_W)
        for name, value in chart.values.items():
            is_strong = name in chart.strong
            colour, weight = (STYLES[0][0], "bold") if is_strong else ("#8a8f98", "normal")
            parts.append(
                f'<text x="{BAR_LEFT - 8}" y="{top + 14:.1f}" text-anchor="end" font-weight="{weight}">'
                f"{html.escape(name)}</text>"
                f'<rect x="{BAR_LEFT}" y="{top + 3:.1f}" width="{max(reach(value), 1):.1f}" height="{BAR_H - 7}" '
                f'fill="{colour}"/>'
                f'<text x="{BAR_LEFT + reach(value) + 6:.1f}" y="{top + 14:.1f}">{short(value)}</text>'
            )
            top += BAR_H
        top += 8
    return "".join([*parts, "</svg>\n"])


def short(value: float) -> str:
    """Three digits, and no more zeros than needed."""
    if value == 0:
        return "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _head(title: str, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}"'
        f' font-family="sans-serif" font-size="12"><style>{CSS}</style><title>{html.escape(title)}</title>'
    )


def _stroke(at: int, width: float) -> str:
    colour, dash = STYLES[at % len(STYLES)]
    return f'stroke="{colour}" stroke-width="{width:g}" stroke-dasharray="{dash}"'


def _panel(panel: Panel, names: Sequence[str], left: float, top: float, *, has_even: bool) -> list[str]:
    lines = {name: [(x, max(y, panel.floor)) for x, y in points] for name, points in panel.lines.items()}
    places = sorted({x for points in lines.values() for x, _ in points}) or [1.0]
    values = [y for points in lines.values() for _, y in points] or [max(panel.floor, 1e-6)]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.001))
    x_of = _log_scale(places[0], places[-1], left, left + PANEL_W)
    y_of = _log_scale(low, high, top + PANEL_H, top)
    parts = [f'<text x="{left}" y="{top - 10}" font-weight="bold">{html.escape(panel.title)}</text>']
    for step in (low * 10**power for power in range(round(math.log10(high / low)) + 1)):
        y = y_of(step)
        parts.append(
            f'<path class="grid" d="M{left:.1f},{y:.1f}h{PANEL_W}"/>'
            f'<text x="{left - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{step:,g}</text>'
        )
    under = top + PANEL_H + 17
    parts += [f'<text x="{x_of(x):.1f}" y="{under}" text-anchor="middle">{x:,g}</text>' for x in places]
    parts.append(f'<path class="axis" fill="none" d="M{left:.1f},{top}v{PANEL_H}h{PANEL_W}"/>')
    if has_even:
        far = min(places[-1], places[0] * high / low)
        parts.append(
            f'<path class="even" d="M{x_of(places[0]):.1f},{y_of(low):.1f}'
            f'L{x_of(far):.1f},{y_of(low * far / places[0]):.1f}"/>'
        )
    for at, name in enumerate(names):
        points = lines.get(name, [])
        if points:
            way = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
            parts.append(f'<polyline points="{way}" fill="none" {_stroke(at, 2)}/>')
        colour = STYLES[at % len(STYLES)][0]
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.6" fill="{colour}"/>' for x, y in points]
    return parts


def _scale(most: float, reach: float) -> Callable[[float], float]:
    return lambda value: value / most * reach


def _log_scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = math.log10(high / low) or 1.0
    return lambda value: start + (end - start) * math.log10(value / low) / span
