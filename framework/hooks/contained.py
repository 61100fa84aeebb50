"""Contained: strategies, policies and broker handlers of plugins, as the framework calls them. Failures and slow calls
are counted under the plugin's name (`calls.py`), so that callers need to know no plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from framework.errors import shorten
from framework.hooks.calls import Calls, Implementation
from framework.hooks.failures import plugin_failure, reject_coroutine
from framework.model.box import BoxAnswer, BoxFailed, BoxHandler, BoxRequest
from framework.model.contracts import AllocationStrategy, ExpiryPolicy, Remarks
from framework.model.delivery import Delivery
from framework.model.outcome import Ack, DeadLetter, Drop, Extend, Outcome, RetryLater, Suspend
from framework.model.queue import MessageQueue

SENT_BACK = RetryLater("10s", "its expiry policy failed")  # as `send_back` has it
_STRATEGIES = "register_allocation_strategies"
_CODE_MAX = 2**31 - 1  # RocketMQ reads an int
_BODY_MAX = 15 * 1024 * 1024  # a frame of RocketMQ's has 16 MB at most, and a header in front
_ANSWERS = (Extend, Ack, RetryLater, DeadLetter, Suspend, Drop)


class _PluginFunction:
    """One function of a plugin that returns something."""

    def __init__(self, calls: Calls, each: Implementation) -> None:
        self._calls, self.each = calls, each
        self._name = getattr(each.function, "__name__", "it")

    def __call__(self, *arguments: object) -> Any:
        """What it returns. What it raises is counted, and raised to the caller as an Exception."""
        began = self._calls.now()
        try:
            answer = self.each.function(*arguments)
            reject_coroutine(answer, self._name)
        except BaseException as error:  # noqa: BLE001 - border: a plugin's
            self._calls.failed(self.each, error)
            raise plugin_failure(error) from error.__cause__
        else:
            return answer
        finally:
            self._calls.timed(self.each, self._calls.now() - began)

    def wrong(self, answer: object, wish: str) -> None:
        self._calls.failed(self.each, TypeError(f"{self._name} answered {shorten(answer)}; {wish}"))


class ContainedPolicy:
    """An expiry policy that always answers: where it fails, the message is sent back, and no other's expiry stops."""

    def __init__(self, calls: Calls, plugin: str, policy: ExpiryPolicy) -> None:
        self.name, self.policy = policy.name, policy
        self._decide = _PluginFunction(calls, Implementation(plugin, "register_expiry_policies", policy.decide))

    def decide(self, delivery: Delivery, age_ms: int) -> Extend | Outcome:
        try:
            answer = self._decide(delivery, age_ms)
        except Exception:  # noqa: BLE001 - border: a plugin's
            return SENT_BACK
        if isinstance(answer, _ANSWERS):
            return answer
        self._decide.wrong(answer, "answer Extend, or an outcome such as RetryLater")
        return SENT_BACK

    def __repr__(self) -> str:
        return f"<policy {self.name}>"


def _listed(ask: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The same as a list, so that a generator's failures are the plugin's, too."""

    @wraps(ask)
    def call(*arguments: object) -> list[Any]:
        answer = ask(*arguments)
        reject_coroutine(answer, ask.__name__)
        return list(answer)

    return call


class ContainedStrategy:
    """A strategy that is counted and timed. What it raises is raised: the caller decides about queues."""

    def __init__(self, calls: Calls, plugin: str, strategy: AllocationStrategy) -> None:
        self.name, self._strategy = strategy.name, strategy
        self._allocate = _PluginFunction(calls, Implementation(plugin, _STRATEGIES, _listed(strategy.allocate)))
        if isinstance(strategy, Remarks):  # without, this one is none either
            self.remarks = _PluginFunction(calls, Implementation(plugin, _STRATEGIES, _listed(strategy.remarks)))

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        found: list[MessageQueue] = self._allocate(member, members, queues)
        return found

    def __repr__(self) -> str:
        return f"<strategy {self.name}: {self._strategy!r}>"


def contained_handler(calls: Calls, plugin: str, code: int, handler: BoxHandler) -> BoxHandler:
    """A built-in broker's handler that always answers: BoxFailed where it raised, or answered what it must not."""
    ask = _PluginFunction(calls, Implementation(plugin, "register_broker_handlers", handler))

    def answered(request: BoxRequest) -> BoxAnswer | BoxFailed | None:
        try:
            answer = ask(request)
        except Exception as error:  # noqa: BLE001 - border: a plugin's
            return BoxFailed(plugin, code, type(error).__name__)
        if answer is None:
            return None
        if not isinstance(answer, BoxAnswer):
            wrong = "answer a BoxAnswer, or nothing where the built-in broker shall answer"
        elif not (wrong := _impossible(answer)):
            return answer
        ask.wrong(answer, wrong)
        return BoxFailed(plugin, code, "TypeError")

    return answered


def _impossible(answer: Any) -> str:
    """What must be written instead, where this can be no frame."""
    if not isinstance(answer.code, int) or isinstance(answer.code, bool) or not 0 <= answer.code <= _CODE_MAX:
        return f"its code is a number from 0 to {_CODE_MAX}, and not {shorten(answer.code)}"
    if not isinstance(answer.body, bytes):
        return f"its body is bytes, and not {shorten(answer.body)}"
    if len(answer.body) > _BODY_MAX:
        return f"its body is at most {_BODY_MAX} bytes, and not {len(answer.body)}"
    if answer.remark is not None and not _is_text(answer.remark):
        return f"its remark is a text, or None, and not {shorten(answer.remark)}"
    if not isinstance(answer.fields, Mapping):
        return f"its fields are a mapping, and not {shorten(answer.fields)}"
    for name, value in answer.fields.items():
        if not (_is_text(name) and _is_text(value)):
            return f"its fields are texts, and not {shorten(name)}: {shorten(value)}"
    return ""


def _is_text(value: object) -> bool:
    """Surrogates stand for what was no text, and no frame can hold them."""
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)
