"""Plans: what an act would do, as its page shows it before a button does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.admin.moments import FORMS
from framework.cli.dashboard.desk import BrowserPage
from framework.cli.dashboard.exchanges import Fields
from framework.cli.table import Column
from framework.net.http.messages import HttpRefused

ROWS_MAX = 256


@dataclass(slots=True)
class ActPlan:
    """What would be done. `blocked` says why it cannot be."""

    title: str
    group: str
    action: str
    """Where the form is sent."""
    button: str
    summary: str
    effects: list[str] = field(default_factory=list)
    fields: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[Column] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0
    must_type: str = ""
    """The group's name, where somebody has to type it: what is done cannot be undone."""
    blocked: str = ""
    form: str = ""
    """Which choices are put above the plan."""
    choices: Mapping[str, Any] = field(default_factory=dict)


def shown(plan: ActPlan) -> BrowserPage:
    plan.left_out = max(len(plan.rows) - ROWS_MAX, 0)
    plan.rows = plan.rows[:ROWS_MAX]
    return BrowserPage("plan.html", plan.title, {"plan": plan, "forms": FORMS})


def check_typed(fields: Fields, name: str) -> None:
    """HttpRefused, where the name of the group that is meant was not written out."""
    if not name or fields.get("typed", "").strip() != name:
        raise HttpRefused(400, f"nothing was changed: type the group's name, {name!r}, to say that it is meant")
