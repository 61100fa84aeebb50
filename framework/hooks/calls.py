"""Hooks, resolved once into tuples of plain callables, each of which contains its plugin's failures.

Two facts about pluggy shape this file: a hook call through it costs about ten times a call through a tuple, and its
first implementation that raises stops all others. So pluggy orders and checks implementations, and we call them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import structlog

from framework.errors import shorten
from framework.hooks.contexts import SLOW_SECONDS, Around
from framework.hooks.failures import discard, plugin_failure, reject_unrun
from framework.hooks.listeners import Listeners, one_call
from framework.hooks.verdict import Skip
from framework.model.delivery import Delivery
from framework.model.outcome import Drop, Kind, Outcome, RetryLater

_log = structlog.get_logger(__name__)


REVERSED = ("app_stopping", "after_consume", "after_send")
"""Called in the opposite order."""
ALL = 9
LOOKED_AT_FIRST, LOOKED_AT_AFTER = 1_000, 1_000
"""Calls in which each hook's time is taken: the first ones, and so many after a delivery that took as long as a slow
hook, be it for its handler or for a hook. The clock costs more than a hook that counts something; of all others it is
asked once, at the end.
"""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One plugin's function for one hook; it takes the hook's arguments by position."""

    plugin: str
    hook: str
    function: Callable[..., Any]
    takes: int = ALL
    """So many of them, the first ones."""


class Calls:
    """What plugins implement, ready to be called. `before`, `around` and `after` are empty without implementations."""

    def __init__(self, implementations: Sequence[Implementation]) -> None:
        self.failures: dict[str, int] = {}
        """Plugin -> how often one of its hooks raised."""
        self.slow: dict[str, int] = {}
        """Plugin -> how often one of its hooks took too long. The message waits for it, and is not hurt."""
        self.now: Callable[[], float] = _no_time
        """Seconds that only go forward; set by the running application; until then nothing is slow."""
        self.looks = LOOKED_AT_FIRST
        """So many more calls in which each hook's time is taken by itself."""
        self._lock = threading.Lock()  # deliveries' hooks run on worker threads, too
        by_hook: dict[str, list[Implementation]] = {}
        for each in implementations:
            by_hook.setdefault(each.hook, []).append(each)
        for hook in REVERSED:
            by_hook.get(hook, []).reverse()
        self.order = {hook: tuple(each.plugin for each in those) for hook, those in by_hook.items()}
        """Hook -> the plugins that implement it, in calling order."""
        self._started = tuple(by_hook.get("app_started", ()))
        self._stopping = tuple(by_hook.get("app_stopping", ()))
        self._figures = tuple(by_hook.get("figures", ()))
        before = tuple((each.function, each) for each in by_hook.get("before_consume", ()))
        self.before: tuple[Callable[[Delivery], Drop | RetryLater | None], ...] = (
            (self._call_before(before, is_last=not by_hook.get("after_consume")),) if before else ()
        )
        """One call for all of them, as for `after`: a delivery pays for no more than the hooks themselves."""
        self.around = tuple(Around(each, self) for each in by_hook.get("around_consume", ()))
        """In calling order, the outermost first."""
        after = tuple((each.function, each, each.takes) for each in by_hook.get("after_consume", ()))
        self.after: tuple[Callable[[Delivery, Outcome, float, Kind], None], ...] = (
            (self._call_after(after),) if after else ()
        )
        """In the opposite order."""
        self.before_send = tuple(by_hook.get("before_send", ()))
        """In calling order; for `client/producing/told.py`, as `after_send`."""
        self.after_send = tuple(by_hook.get("after_send", ()))
        """In the opposite order."""
        self.listeners = Listeners(lambda hook: one_call(self.contained, tuple(by_hook.get(hook, ()))))
        """Hooks beside deliveries; each is None where no plugin implements it."""

    def app_started(self, app: object) -> None:
        for each in self._started:
            self.contained(each, each.function, app)

    def app_stopping(self, app: object) -> None:
        for each in self._stopping:
            self.contained(each, each.function, app)

    def figures(self) -> dict[str, dict[str, float]]:
        """Plugin -> what it counts. What is no number is the plugin's failure, and is left out."""
        found: dict[str, dict[str, float]] = {}
        for each in self._figures:
            answer = self.contained(each, each.function)
            if answer is None:
                continue
            if isinstance(answer, Mapping) and all(map(_is_number, answer.values())):
                found[each.plugin] = {str(name): value for name, value in answer.items()}
            else:
                self.failed(each, TypeError(f"figures answered {shorten(answer)}; answer {{name: number}}"))
        return found

    def contained(self, each: Implementation, function: Callable[..., object], *arguments: object) -> object:
        """One call of a plugin's function; None where it fails, which is counted and named."""
        began = self.now()
        try:
            answer = function(*arguments)
            if answer is not None:
                reject_unrun(answer, each.hook)
        except BaseException as error:  # noqa: BLE001 - border: a hook's
            self.failed(each, error)
            return None
        else:
            return answer
        finally:
            self.timed(each, self.now() - began)

    def _call_before(
        self, pairs: Sequence[tuple[Callable[..., Any], Implementation]], *, is_last: bool
    ) -> Callable[[Delivery], Drop | RetryLater | None]:
        """All `before_consume`, in calling order, until one has a verdict. `is_last`: nothing is called after it that
        would notice a slow one.
        """

        def call(delivery: Delivery) -> Drop | RetryLater | None:
            if self.looks > 0:
                return closely(delivery)
            for function, each in pairs:
                try:
                    verdict = function(delivery)
                except BaseException as error:  # noqa: BLE001 - border: a hook's
                    self.failed(each, error)
                    continue
                if verdict is not None and (answer := self._checked(each, verdict)) is not None:
                    return answer
            if is_last and self.now() - delivery.started > SLOW_SECONDS:
                self.looks = LOOKED_AT_AFTER  # find out which was slow
            return None

        def closely(delivery: Delivery) -> Drop | RetryLater | None:
            self.looks -= 1
            for function, each in pairs:
                answer = self._checked(each, self.contained(each, function, delivery))
                if answer is not None:
                    return answer
            return None

        return call

    def _checked(self, each: Implementation, verdict: object) -> Drop | RetryLater | None:
        """What a hook's answer means; None where it means nothing."""
        if verdict is None or isinstance(verdict, RetryLater):
            return verdict
        if isinstance(verdict, Skip):
            return Drop(each.plugin, verdict.reason)
        discard(verdict)
        wish = "answer Skip, RetryLater or nothing"
        self.failed(each, TypeError(f"before_consume answered {shorten(verdict)}; {wish}"))
        return None

    def _call_after(
        self, pairs: Sequence[tuple[Callable[..., Any], Implementation, int]]
    ) -> Callable[[Delivery, Outcome, float, Kind], None]:
        """All `after_consume`, in the opposite order."""

        def call(delivery: Delivery, outcome: Outcome, elapsed_ms: float, kind: Kind) -> None:
            if self.looks > 0:
                closely(delivery, outcome, elapsed_ms, kind)
                return
            for function, each, takes in pairs:
                try:
                    if takes == 3:
                        answer = function(delivery, outcome, elapsed_ms)
                    elif takes == 2:
                        answer = function(delivery, outcome)
                    else:
                        answer = function(delivery, outcome, elapsed_ms, kind)
                    if answer is not None:
                        reject_unrun(answer, each.hook)
                except BaseException as error:  # noqa: BLE001 - border: a hook's
                    self.failed(each, error)
            if self.now() - delivery.started > SLOW_SECONDS:
                self.looks = LOOKED_AT_AFTER

        def closely(*arguments: object) -> None:
            self.looks -= 1
            for function, each, takes in pairs:
                self.contained(each, function, *arguments[:takes])

        return call

    def failed(self, each: Implementation, error: BaseException) -> None:
        """Count and name what a plugin's function raised; what is no failure of its own is raised again."""
        plugin_failure(error)
        with self._lock:
            count = self.failures[each.plugin] = self.failures.get(each.plugin, 0) + 1
        if _is_said(count):
            _log.error("hook failed", plugin=each.plugin, hook=each.hook, failures=count, exc_info=error)

    def timed(self, each: Implementation, seconds: float) -> None:
        """Count and name what takes too long."""
        if seconds <= SLOW_SECONDS:
            return
        with self._lock:
            count = self.slow[each.plugin] = self.slow.get(each.plugin, 0) + 1
        if _is_said(count):
            _log.warning("hook slow", plugin=each.plugin, hook=each.hook, times=count, elapsed_ms=round(seconds * 1000))


def _is_said(count: int) -> bool:
    """The 1st, 10th, 100th ...: a hook that fails for every message must not fill the disk with saying so."""
    return str(count).strip("0") == "1"


def _no_time() -> float:
    return 0.0
