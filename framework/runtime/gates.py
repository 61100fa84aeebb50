"""Gates: `ready_when` functions, asked until they answer True; then their group joins. One task a group that waits.

What a function raises, or answers beside True, says why its group does not start: that is logged when it changes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import structlog

from framework.errors import shorten
from framework.net.task_tree import TaskTree
from framework.ports import Workers
from framework.runtime.dormant import Dormant
from framework.runtime.plan import GroupPlan
from framework.services.resources import AnyResource, Values

log = structlog.get_logger()

ASK_SECONDS = 1.0
ANSWER_SECONDS = 10.0
"""A function that takes longer has answered no."""


class Gates:
    """One per application; `start` when its resources are open and groups may join."""

    def __init__(self, dormant: Dormant, values: Values, workers: Workers) -> None:
        self._dormant, self._values, self._workers = dormant, values, workers

    def start(self, tree: TaskTree) -> None:
        for plan in self._dormant.gated:
            tree.start(self._wait(plan), name=f"gate {plan.name}")

    async def _wait(self, plan: GroupPlan) -> None:
        said: str | None = None
        for gate in plan.gates:
            while (reason := await self._closed_because(gate)) is not None:
                if reason != said:
                    log.info("group waits until it is ready", group=plan.own_name, asked=gate.name, reason=reason)
                    said = reason
                await asyncio.sleep(ASK_SECONDS)
        if self._dormant.join is not None:  # else the application is stopping
            self._dormant.start(plan.own_name, ())

    async def _closed_because(self, gate: AnyResource) -> str | None:
        given = {name: self._values[need] for name, need in gate.needs.items() if not isinstance(need, type)}
        ask: Callable[..., object] = gate.function
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = ask(**given) if gate.is_async else await self._workers.run(lambda: ask(**given))
                if inspect.isawaitable(answer):
                    answer = await answer
        except TimeoutError:
            return f"no answer within {ANSWER_SECONDS:g} s"
        except Exception as error:  # noqa: BLE001 - border: the user's function
            return f"{type(error).__name__}: {error}"
        return None if answer is True else str(answer) if isinstance(answer, str) else f"it answered {shorten(answer)}"
