"""Gates: `ready_when` functions, asked until they answer True; then their group joins. One task a group that waits.

What a function raises, or answers beside True, says why its group does not start: that is logged when it changes. One
that hangs is asked no second time before it has ended: it costs one thread, or one task, however long it hangs, and no
stop waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import structlog

from framework.errors import shorten
from framework.hooks.failures import plugin_failure_awaited
from framework.net.task_tree import TaskTree
from framework.ports import Workers
from framework.runtime.dormant import Dormant
from framework.runtime.group.plan import GroupPlan
from framework.services.call.resources import AnyResource, Values

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
