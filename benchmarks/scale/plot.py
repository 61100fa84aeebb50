"""Plot: four figures of each phase over the number of members, as one SVG.

Both axes are logarithmic, so what grows with the members is as steep as the dotted line in each panel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.plots import Panel, drawn_lines
from benchmarks.scale.drill import PHASES

Found = dict[str, Any]
PANELS: tuple[tuple[str, Callable[[Found], float | None], float], ...] = (
    ("queue moves", lambda found: found["moves"] or None, 1),
    ("virtual seconds to rest", lambda found: found["rest_s"] if found["moves"] else None, 0.1),
    ("requests per broker and virtual second", lambda found: found["mean"], 1),
    ("processor seconds a virtual minute", lambda found: found["cpu_a_minute"], 0.1),
)
"""A title, the figure, and what is drawn where it is less."""


def drawn(runs: Sequence[Found]) -> str:
    """The SVG."""
    panels = [
        Panel(title=title, lines={phase: _points(runs, phase, value) for phase in PHASES}, floor=floor)
        for title, value, floor in PANELS
    ]
    return drawn_lines("What grows with the members of a group", PHASES, panels, even="as the members")


def _points(runs: Sequence[Found], phase: str, value: Callable[[Found], float | None]) -> list[tuple[float, float]]:
    return [
        (run["members"], found)
        for run in runs
        if phase in run["phases"] and (found := value(run["phases"][phase])) is not None
    ]
