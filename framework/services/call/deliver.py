"""What stands between a message and its handler: nothing, unless a hook, an annotation or an option asks for more.

`call_for` puts the call together once, at start, from what the handler takes and what is implemented: decoded bodies,
hooks before, around and after it, an observer of events, declared retries. With none of them the call is the user's
function itself.
"""

from __future__ import annotations

import math
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.core import limits
from framework.core.expiry import SlotDelivery, held
from framework.core.results import HOLDS, Result, by_policy, explicit, kind_of, result_of
from framework.declare import ConsumerSpec
from framework.errors import BodyUndecodable
from framework.hooks.contexts import Around
from framework.model.answers import understood
from framework.model.delivery import BatchDelivery, Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, Drop, Kind, Outcome, RetryLater
from framework.model.retrying import Retry
from framework.ports import Clock, Workers
from framework.services.call.arguments import invocation_of
from framework.services.call.around import surrounded
from framework.services.call.once import Once
from framework.services.call.publishing import Means, published, replied
from framework.services.call.run_once import failure_at_once, failure_awaited, on_thread
from framework.services.call.undecodable import Undecodable
from framework.services.pool.run import RUNNING, is_given_up

Before = Callable[[Delivery], Drop | RetryLater | None]
After = Callable[[Delivery, Outcome, float, Kind], None]
Stage = Callable[[Callable[..., Any]], Callable[..., Any]]
SUCCESS = Ack()


@dataclass(frozen=True, slots=True)
class DeliveryHooks:
    """Hooks of plugins and observers, in calling order; each contains its own failures."""

    before: Sequence[Before] = ()
    after: Sequence[After] = ()
    around: Sequence[Around] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.around)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the group's settings say about the results of its handlers."""

    undecodable: Undecodable = field(default_factory=lambda: Undecodable("", "dead_letter", 0))
    explicit_ack: bool = False
    stuck_after_ms: int = limits.HANDLER_MS
    """In order: a handler that took this long is told of as one that timed out."""


def call_for(
    spec: ConsumerSpec,
    hooks: DeliveryHooks,
    clock: Clock,
    rules: Rules | None = None,
    means: Means | None = None,
    once: Once | None = None,
) -> Callable[[Message], Any]:
    """The callable that workers run: a coroutine function where it is awaited, a plain one for a sync handler."""
    assert not spec.batch, "a batch handler is called with a batch"
    rules, means = rules or Rules(), means or Means()
    is_async, is_explicit, is_told = is_awaited(spec), rules.explicit_ack, _is_told(spec, hooks)
    takes_message = [(each.wants, each.by_name) for each in spec.arguments] == [("message", False)]
    if takes_message and not (is_told or hooks.around or is_explicit or spec.gives_on):
        return spec.function  # for an async handler, too: the caller awaits what it returns
    judge = Judge(spec, hooks, clock, rules, means)
    needs_delivery = any(each.wants in {"delivery", "resource"} for each in spec.arguments)
    invocation: Callable[..., Any] = invocation_of(spec, rules.undecodable, means.values)

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        bare = spec.function if takes_message and call is invocation else call
        return surrounded(call, bare, hooks.around, judge.begin, is_async=is_async, is_explicit=is_explicit)

    # From the handler outwards: what each stage makes of the call so far.
    stages: tuple[tuple[object, Stage], ...] = (
        (is_async and not spec.is_async, lambda call: _in_thread(call, means.workers)),
        (spec.gives_on, lambda call: _giving_on(spec, call, means, is_explicit=is_explicit)),
        # Around publishing, so that what is sent is part of it; within `once`, since a repeat is not run.
        (hooks.around, around),
        (is_explicit and not is_told, lambda call: _answering(call, is_async=is_async)),
        (spec.once_ms, lambda call: _async_once(call, judge, once, spec)),
        (is_told and not spec.once_ms, lambda call: (_async_with_hooks if is_async else _sync_with_hooks)(call, judge)),
        (needs_delivery and not is_told, lambda call: lambda message: call(message, judge.begin(message))),
    )
    call = invocation
    for is_wanted, stage in stages:
        if is_wanted:
            call = stage(call)
    return call


def judging_for(
    spec: ConsumerSpec, hooks: DeliveryHooks, clock: Clock, rules: Rules, means: Means
) -> Callable[[Message, object], object]:
    """What judges the call's results. Where hooks are told of them, or `once` remembers them, the call has done so."""
    is_judged = spec.batch or _is_told(spec, hooks)
    return (lambda _, value: value) if is_judged else Judge(spec, hooks, clock, rules, means).judged


def _is_told(spec: ConsumerSpec, hooks: DeliveryHooks) -> bool:
    """Whether somebody is asked before the call, or told of its result; what is around it is neither."""
    return bool(hooks.before or hooks.after or spec.once_ms)


def is_awaited(spec: ConsumerSpec) -> bool:
    """Whether the call is a coroutine function: a plain handler that publishes or replies, or has its
    repeats dropped, is awaited in its thread.
    """
    return spec.is_async or bool(spec.gives_on or spec.once_ms)


def _giving_on(
    spec: ConsumerSpec, invoke: Callable[..., Any], means: Means, *, is_explicit: bool
) -> Callable[..., Any]:
    """What is returned is published, or the reply to the message."""

    async def give_on(message: Message, delivery: Delivery | None = None) -> object:
        answer = await invoke(message, delivery)
        if is_given_up():
            return answer  # its message is retried, or settled: nothing of this run is given on
        if spec.replies:
            result = await replied(answer, message, means.reply)
        else:
            result = await published(answer, spec.publishes, means.send, spec.encode, spec.publish_order_key)
        return None if isinstance(result, Ack) and not is_explicit else result

    return give_on


def _in_thread(invoke: Callable[..., Any], workers: Workers | None) -> Callable[..., Any]:
    assert workers is not None, "a plain handler that is awaited takes a thread"
    return lambda message, delivery=None: on_thread(workers, lambda: invoke(message, delivery))


def _async_once(
    invoke: Callable[..., Any], judge: Judge, once: Once | None, spec: ConsumerSpec
) -> Callable[[Message], Any]:
    assert once is not None, "somebody must remember what was handled"
    key_of, keep_ms = None if spec.by_key else spec.key, spec.once_ms

    async def handle(message: Message, delivery: Delivery) -> object:
        try:
            value = await invoke(message, delivery)
        except BaseException as error:  # noqa: BLE001 - border: the handler's
            value = failure_awaited(error)
        return judge.judged(message, value)

    async def call(message: Message) -> object:
        delivery = judge.begin(message)
        value: object = judge.verdict(delivery)
        if value is None:
            try:
                value = await once.around(delivery, handle, key_of, keep_ms)
            except CancelledError as error:
                value = judge.failure(delivery, error)
        return judge.report(delivery, value)

    return call


def _answering(invoke: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
    """Under `explicit_ack`, without hooks: whoever runs it takes nothing for success, and judges nothing else."""

    async def call(message: Message, delivery: Delivery | None = None) -> object:
        return explicit(await invoke(message, delivery))

    def call_at_once(message: Message, delivery: Delivery | None = None) -> object:
        return explicit(invoke(message, delivery))

    return call if is_async else call_at_once


def _async_with_hooks(invoke: Callable[..., Any], judge: Judge) -> Callable[[Message], Any]:
    """With hooks around it. On each message's way: tests/house counts what it calls."""
    group, now, before, after, is_plain = judge.group, judge.now, judge.before, judge.after, judge.is_plain
    new = object.__new__

    async def call(message: Message) -> object:
        slot = RUNNING.get()
        if slot is None or (chunk := slot.chunk) is None:
            delivery = judge.begin(message)
        else:
            delivery = new(SlotDelivery)  # and what its `__init__` does, which would cost a call
            delivery.group, delivery.message, delivery.started = group, message, slot.started
            delivery._slot, delivery._chunk, delivery._index, delivery._now = slot, chunk, slot.index, now  # noqa: SLF001
            window = chunk.window
            delivery.epoch = None if window is None else window.epoch
        value: object = None if before is None else before(delivery)
        if value is None:
            try:
                value = await invoke(message, delivery)
            except BaseException as error:  # noqa: BLE001 - border: the handler's
                value = judge.failure(delivery, error)
            if value is None and is_plain and (slot is None or slot.verdicts is None):
                if after is not None:
                    after(delivery, SUCCESS, (now() - delivery.started) * 1000, "success")
                return None
            value = judge.judged(message, value)
        return judge.report(delivery, value)

    return call


def _sync_with_hooks(invoke: Callable[..., Any], judge: Judge) -> Callable[[Message], Any]:
    group, now, before, after, is_plain = judge.group, judge.now, judge.before, judge.after, judge.is_plain

    def call(message: Message) -> object:
        slot = RUNNING.get()
        if slot is None or (chunk := slot.chunk) is None:
            delivery = judge.begin(message)
        else:
            delivery = SlotDelivery(group, message, slot, chunk, now)
        value: object = None if before is None else before(delivery)
        if value is None:
            try:
                value = invoke(message, delivery)
            except BaseException as error:  # noqa: BLE001 - border: the handler's
                value = failure_at_once(error)
            if value is None and is_plain and (slot is None or slot.verdicts is None):
                if after is not None:
                    after(delivery, SUCCESS, (now() - delivery.started) * 1000, "success")
                return None
            value = judge.judged(message, value)
        return judge.report(delivery, value)

    return call


def _first_verdict(befores: tuple[Before, ...]) -> Before | None:
    """One call for all; the first verdict stands, and the handler is then not called. None where there are none."""
    if len(befores) <= 1:
        return befores[0] if befores else None

    def first(delivery: Delivery) -> Drop | RetryLater | None:
        for before in befores:
            verdict = before(delivery)
            if verdict is not None:
                return verdict
        return None

    return first


def _all_in_turn(afters: tuple[After, ...]) -> After | None:
    if len(afters) <= 1:
        return afters[0] if afters else None

    def each(delivery: Delivery, outcome: Outcome, elapsed_ms: float, kind: Kind) -> None:
        for after in afters:
            after(delivery, outcome, elapsed_ms, kind)

    return each


class Judge:
    """Begins a handler's deliveries, judges what the handler returned, calls hooks. Shared by threads; no state."""

    __slots__ = ("_ages", "_retry", "_stuck_after_ms", "_undecodable", "after", "before", "group", "is_explicit",
                 "is_plain", "now")  # fmt: skip

    def __init__(self, spec: ConsumerSpec, hooks: DeliveryHooks, clock: Clock, rules: Rules, means: Means) -> None:
        self.group, self.now = spec.group, clock.monotonic
        self._stuck_after_ms = rules.stuck_after_ms if spec.orderly else math.inf
        self._ages = means.ages or (lambda _: clock.now_ms())
        self.before = _first_verdict(tuple(hooks.before))
        self.after = _all_in_turn(tuple(reversed(hooks.after)))
        self._undecodable, self.is_explicit = rules.undecodable, rules.explicit_ack
        self.is_plain = not rules.explicit_ack and not spec.orderly
        """Returning nothing is success, and reported as such however long it took."""
        self._retry: Retry | None = spec.retry

    def begin(self, message: Message) -> Delivery:
        """Of the message that is run."""
        slot = RUNNING.get()
        if slot is None or (chunk := slot.chunk) is None:
            return Delivery(self.group, message, self.now(), None, None if slot is None else slot.epoch())
        return SlotDelivery(self.group, message, slot, chunk, self.now)

    def begin_in_batch(self, message: Message, at: int) -> BatchDelivery:
        """Of number `at` of those that are run together."""
        now, slot = self.now, RUNNING.get()
        return BatchDelivery(self.group, message, now(), held(slot, now), None if slot is None else slot.epoch(at))

    def verdict(self, delivery: Delivery) -> Drop | RetryLater | None:
        """The first verdict of a hook that has one; the handler is then not called."""
        return None if self.before is None else self.before(delivery)

    def failure(self, delivery: Delivery, error: BaseException) -> Exception:
        """What an async handler raised; raised again where it is none of its own. Of one that timed out and heeds
        it, plugins are called first.
        """
        if isinstance(error, CancelledError) and delivery.is_expired:
            self.report(delivery, None)
        return failure_awaited(error)

    def judged(self, message: Message, value: object) -> object:
        """What the handler's result means: None for plain success, an error that holds the queue, or a Result."""
        if isinstance(value, BodyUndecodable):
            return self._undecodable.judged(message, value)
        if isinstance(value, HOLDS):
            return value
        value = understood(value)
        if self.is_explicit:
            value = explicit(value)
        if value is not None and self._retry is not None:
            now_ms = self._ages(message.queue.broker)
            age_ms = 0 if now_ms is None else max(now_ms - message.born_ms, 0)
            value = by_policy(self._retry, value, message.attempt, age_ms)
        return value

    def report(self, delivery: Delivery, value: object) -> object:
        """Call the `after` hooks, innermost first; the value as it is. A message that is held is not done: nothing is
        called. For one that timed out they get what was decided then, when its handler returns at last.
        """
        if self.after is not None and not isinstance(value, HOLDS):
            elapsed_ms = (self.now() - delivery.started) * 1000
            running = delivery.running
            verdict = None if running is None else running.verdict
            result = result_of(value) if verdict is None else Result(verdict, "timed_out")
            self.after(delivery, result.outcome, elapsed_ms, kind_of(result, elapsed_ms, self._stuck_after_ms))
        return value
