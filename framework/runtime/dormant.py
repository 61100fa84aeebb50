"""Groups that are planned and have not joined: those that `autostart: false` keeps back until somebody asks for them,
and those that wait for their `ready_when`.

Brokers hear nothing of such a group, or other members would leave queues to it that nobody pulls. `ready_when`
functions are asked until they answer True; then their group joins. What a function raises, or answers beside True, says
why its group does not start: that is logged when it changes. One that hangs is asked no second time before it has
ended: it costs one thread, or one task, however long it hangs, and no stop waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from framework.errors import nearest, shorten
from framework.hooks.failures import plugin_failure_awaited
from framework.mistakes import GroupNotHere, WrongMoment
from framework.model.contracts import ExpiryPolicy
from framework.net.task_tree import TaskTree
from framework.ports import Workers
from framework.runtime.group.plan import GroupPlan
from framework.services.call.resources import AnyResource, Values


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


log = structlog.get_logger()

ASK_SECONDS = 1.0
ANSWER_SECONDS = 10.0
"""A function that takes longer has answered no."""
LEAVE_SECONDS = 1.0
"""How long one that is asked to end is waited for."""


class Gates:
    """One per application; `start` when its resources are open and groups may join."""

    def __init__(self, dormant: Dormant, values: Values, workers: Workers) -> None:
        self._dormant, self._values, self._workers = dormant, values, workers

    def start(self, tree: TaskTree) -> None:
        for plan in self._dormant.gated:
            tree.start(self._wait(plan), name=f"gate {plan.name}")

    async def _wait(self, plan: GroupPlan) -> None:
        questions = [_Question(gate, self._values, self._workers) for gate in plan.gates]
        said: str | None = None
        try:
            for question in questions:
                while (reason := await question.closed_because()) is not None:
                    if reason != said:
                        log.info("group not ready", group=plan.own_name, asked=question.name, reason=reason)
                        said = reason
                    await asyncio.sleep(ASK_SECONDS)
            if self._dormant.join is not None:  # else the application is stopping
                self._dormant.start(plan.own_name, ())
        finally:
            for question in questions:
                if not await question.ended():
                    log.warning("ready check abandoned", group=plan.own_name, asked=question.name)


class _Question:
    """One function, and what it was asked last, as long as that has no answer."""

    def __init__(self, gate: AnyResource, values: Values, workers: Workers) -> None:
        self._gate, self._values, self._workers = gate, values, workers
        self.name = gate.name
        self._tree = TaskTree(on_error=_said_as_reason)
        self._under_way: asyncio.Task[object] | None = None
        self._is_in_thread = False

    async def closed_because(self) -> str | None:
        """Ask, or wait on for what was asked before; None where it answers True."""
        answering = self._under_way
        if answering is None or answering.cancelled():
            answering = self._under_way = self._tree.start(self._ask(), name=f"ask {self.name}")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await asyncio.shield(answering)
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
        except Exception:  # noqa: BLE001, S110 - border: the user's function; asked below, since it may end this very moment
            pass
        if not answering.done() or answering.cancelled():
            if not self._is_in_thread:
                answering.cancel()  # which a thread would not hear of
            return f"no answer within {ANSWER_SECONDS:g} s"
        self._under_way = None
        error = answering.exception()
        if error is not None:
            return f"{type(error).__name__}: {error}"
        answer = answering.result()
        return None if answer is True else str(answer) if isinstance(answer, str) else f"it answered {shorten(answer)}"

    async def _ask(self) -> object:
        try:
            return await self._answered()
        except BaseException as error:  # noqa: BLE001 - border: what is none of Exception's would end the loop
            raise plugin_failure_awaited(error) from error.__cause__

    async def _answered(self) -> object:
        gate = self._gate
        arguments = {name: self._values[need] for name, need in gate.needs.items() if not isinstance(need, type)}
        ask: Callable[..., object] = gate.function
        if gate.is_async:
            answer = ask(**arguments)
        else:
            self._is_in_thread = True
            try:
                answer = await self._workers.run(lambda: ask(**arguments))
            finally:
                self._is_in_thread = False
        return await answer if inspect.isawaitable(answer) else answer

    async def ended(self) -> bool:
        """Nothing of it is left, or it was asked to end and does not. A thread cannot be asked to."""
        is_in_thread = self._is_in_thread and self._under_way is not None and not self._under_way.done()
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._tree.close()
        except TimeoutError:
            return False
        return not is_in_thread


def _said_as_reason(name: str, error: BaseException) -> None:
    """Its error is the reason why the group waits."""
