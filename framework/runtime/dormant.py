"""Dormant: groups that `autostart: false` keeps back until somebody asks for them, and those that wait for their
`ready_when` (`gates.py`). They are plans and nothing else.

Brokers hear nothing of such a group, or other members would leave queues to it that nobody pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framework.errors import nearest
from framework.mistakes import GroupNotHere, WrongMoment
from framework.model.contracts import ExpiryPolicy
from framework.runtime.group.plan import GroupPlan


class Dormant:
    """One per application."""

    def __init__(self) -> None:
        self._plans: dict[str, GroupPlan] = {}
        self.join: Callable[[GroupPlan], None] | None = None
        """Starts a group; None while the application itself has not started."""

    def keep(self, plans: Sequence[GroupPlan]) -> list[GroupPlan]:
        """Keep back those that wait; the others come back."""
        self._plans = {plan.own_name: plan for plan in plans if not plan.settings.autostart or plan.gates}
        return [plan for plan in plans if plan.settings.autostart and not plan.gates]

    @property
    def gated(self) -> list[GroupPlan]:
        """Those that start by themselves, when they may."""
        return [plan for plan in self._plans.values() if plan.gates]

    @property
    def plans(self) -> list[GroupPlan]:
        return list(self._plans.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._plans)

    def adopt(self, name: str, changed: Mapping[str, Any], expiry: ExpiryPolicy) -> None:
        """Settings that change while a group waits hold when it starts."""
        if name in self._plans:
            self._plans[name] = self._plans[name].with_settings(changed, expiry)

    def start(self, name: str, running: Sequence[GroupPlan]) -> None:
        """Have it join; nothing happens where it runs already."""
        if self.join is None:
            raise WrongMoment(
                f"start_consumer({name!r}): the application has not started yet; call it in a plugin's app_started, or "
                "when app.is_ready"
            )
        if any(name in {plan.own_name, plan.name} for plan in running):
            return
        found = next((own for own, plan in self._plans.items() if name in {own, plan.name}), None)
        if found is None:
            hint = nearest(name, self._plans) or f"; waiting: {', '.join(self._plans) or 'none'}"
            raise GroupNotHere(f"start_consumer({name!r}): no group of this name is waiting to start{hint}")
        self.join(self._plans.pop(found))

    def __repr__(self) -> str:
        return f"<Dormant {', '.join(self._plans)}>"
