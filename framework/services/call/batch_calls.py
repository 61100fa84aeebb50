"""The call of a batch handler: lists side by side go in, one result per message comes out.

A message that a hook decides on, or whose body cannot be read, is settled alone; the handler gets the rest. What its
answer means for each of them, `core/batch.py` says. Where no hook asks for deliveries, none are made: a batch that goes
well costs one call, and one for each body that is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from framework.core.batch import spread
from framework.core.results import HOLDS, result_of
from framework.declare import ConsumerSpec
from framework.hooks.contexts import run_sync
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import RetryLater, Suspend
from framework.ports import Clock, Workers
from framework.services.call.arguments import called_with, scope_of, value_of
from framework.services.call.around import OpenContexts
from framework.services.call.deliver import DeliveryHooks, Judge, Rules
from framework.services.call.publishing import Means
from framework.services.call.run_once import ENDS, failure_at_once, failure_awaited, run_once

Results: TypeAlias = list[object] | None
"""One a message; None where all is well."""
Many = Callable[[Sequence[Message]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Batching:
    """How a handler is run that takes several messages at once."""

    call: Many
    """Answers Results, and never raises: a coroutine function for an async handler.

    In order it stops at a message that comes again before the handler has seen it: there is no result for those behind.
    """
    is_async: bool
    count: int
    linger_ms: int


def batching_for(
    spec: ConsumerSpec, hooks: DeliveryHooks, clock: Clock, rules: Rules, means: Means | None = None
) -> Batching:
    shape = _Shape(spec, hooks, clock, rules, means or Means())

    async def call(messages: Sequence[Message]) -> Results:
        batch = _Batch(shape, messages)
        answer: object = None
        try:
            if hooks.around:
                await batch.enter()
            if batch.taken:
                answer = await batch.run() if spec.is_async else batch.run()
        except BaseException as error:  # noqa: BLE001 - border: the handler's
            try:
                answer = failure_awaited(error) if spec.is_async else failure_at_once(error)
            except BaseException:
                await batch.leave(None, error)
                raise
        return batch.settle(await batch.leave(answer))

    many: Many = call if spec.is_async else lambda messages: run_sync(call(messages))
    if not hooks and not rules.explicit_ack and not shape.scope and all(e.wants != "delivery" for e in spec.arguments):
        many = _plain(shape, many)
    return Batching(many, spec.is_async, spec.batch, spec.linger_ms)


def one_of(batching: Batching) -> Callable[[Message], Any]:
    """The same for one message that comes alone: handed over by an administrator, or tried again where it is."""
    many = batching.call

    def the_only(results: Results) -> object:
        return None if results is None else results[0]

    async def call(message: Message) -> object:
        return the_only(await many((message,)))

    return call if batching.is_async else lambda message: the_only(many((message,)))


async def results_of(call: Many, messages: Sequence[Message], *, is_async: bool, workers: Workers) -> Results:
    """Of a batch's call, run where it runs."""
    results = await run_once(call, messages, is_async=is_async, workers=workers)
    return results if results is None or isinstance(results, list) else [results] * len(messages)


def _plain(shape: _Shape, otherwise: Many) -> Many:
    """The call where nobody asks for deliveries; `otherwise` is for a batch with a body that cannot be read."""
    spec, judge = shape.spec, shape.judge

    async def call(messages: Sequence[Message]) -> Results:
        columns = shape.columns(messages)
        if columns is None:
            return cast("Results", await otherwise(messages))
        try:
            answer = await called_with(spec, columns, shape.shared)
        except BaseException as error:  # noqa: BLE001 - border: the handler's
            answer = failure_awaited(error)
        return None if answer is None else _settled(judge, messages, spread(answer, len(messages)))

    def call_at_once(messages: Sequence[Message]) -> Results:
        columns = shape.columns(messages)
        if columns is None:
            return cast("Results", otherwise(messages))
        try:
            answer = called_with(spec, columns, shape.shared)
        except BaseException as error:  # noqa: BLE001 - border: the handler's
            answer = failure_at_once(error)
        return None if answer is None else _settled(judge, messages, spread(answer, len(messages)))

    return call if spec.is_async else call_at_once


def _settled(judge: Judge, messages: Sequence[Message], values: Sequence[object]) -> list[object]:
    """What the values mean; of one failure that is several messages', the first has the traceback."""
    results, shown = [], None
    for message, value in zip(messages, values, strict=True):
        result = judge.judged(message, value)
        if result is not None and not isinstance(result, HOLDS):
            judged = result_of(result)
            if judged.error is not None and judged.error is shown:
                result = judged.without_error()
            shown = judged.error or shown
        results.append(result)
    return results


class _Shape:
    """What the handler takes, and who judges its results."""

    def __init__(self, spec: ConsumerSpec, hooks: DeliveryHooks, clock: Clock, rules: Rules, means: Means) -> None:
        self.spec, self.in_order = spec, spec.orderly
        self.arounds, self.is_explicit = tuple(hooks.around), rules.explicit_ack
        values = means.values
        self.scope, self.shared = scope_of(spec, values), values
        self.judge = Judge(spec, hooks, clock, rules, means)
        self.arguments = spec.arguments
        self.values = [value_of(each, rules.undecodable, values) for each in spec.arguments]
        self.undecodable = rules.undecodable

    def columns(self, messages: Sequence[Message]) -> list[object] | None:
        """What the function takes: lists, or tuples where it asks for those, are its own to do with as it likes. None
        where a body cannot be read.
        """
        columns: list[object] = []
        try:
            for argument in self.arguments:
                if argument.resource is not None:
                    columns.append(None)  # filled in where the function is called
                elif argument.wants == "message":
                    columns.append((argument.many or list)(messages))
                elif argument.decode is None:
                    columns.append((argument.many or list)([message.body for message in messages]))
                else:
                    convert = argument.decode.convert
                    columns.append((argument.many or list)([convert(message.body) for message in messages]))
                    self.undecodable.row = 0
        except ENDS:
            raise
        except BaseException:  # noqa: BLE001 - border: the handler's models; whose body it is, the longer way finds out
            return None
        return columns


def _comes_again(result: object) -> bool:
    return isinstance(result, HOLDS) or isinstance(result_of(result).outcome, RetryLater | Suspend)


class _Batch:
    """One batch on its way."""

    def __init__(self, shape: _Shape, messages: Sequence[Message]) -> None:
        self._shape, judge = shape, shape.judge
        self._contexts = OpenContexts(shape.arounds, shape.spec.is_async, shape.is_explicit)
        """What plugins hold around the run, by their messages' places in `taken`."""
        self._deliveries: list[Delivery] = []
        self._results: list[object] = []
        self.taken: list[int] = []
        """Indexes of the messages that the handler takes."""
        self._rows: list[list[object]] = []
        for index, message in enumerate(messages):
            delivery = judge.begin_in_batch(message, index)
            self._deliveries.append(delivery)
            result: object = judge.verdict(delivery)
            if result is None:
                try:
                    self._rows.append([value(message, delivery) for value in shape.values])
                except BaseException as error:  # noqa: BLE001 - border: the handler's, for its models may hold code
                    result = judge.judged(message, failure_at_once(error))
                else:
                    self.taken.append(index)
            self._results.append(result)
            if shape.in_order and result is not None and _comes_again(result):
                break  # nothing behind it starts

    def run(self) -> Any:
        """Call the function; lists, or tuples where it asks for those, are its own to do with as it likes."""
        shape = self._shape
        columns = [
            None if argument.resource is not None else (argument.many or list)(row[at] for row in self._rows)
            for at, argument in enumerate(shape.arguments)
        ]
        if not shape.scope:
            return called_with(shape.spec, columns, shape.shared)
        around = shape.scope.around if shape.spec.is_async else shape.scope.around_at_once
        return around(lambda made: called_with(shape.spec, columns, made), {})

    async def enter(self) -> None:
        """Enter what plugins hold around the run, message by message. One that is not to be handled now is taken away,
        and in order nothing behind it starts.
        """
        at = 0
        while at < len(self.taken):
            index = self.taken[at]
            verdict = await self._contexts.enter(self._deliveries[index], at)
            if verdict is None:
                at += 1
                continue
            await self._contexts.leave({at: verdict}, at=at)
            del self.taken[at], self._rows[at]
            self._results[index] = self._shape.judge.judged(self._deliveries[index].message, verdict)
            if self._shape.in_order:
                del self.taken[at:], self._rows[at:], self._results[index + 1 :], self._deliveries[index + 1 :]

    async def leave(self, answer: object, cut_off: BaseException | None = None) -> list[object]:
        """Leave it all, the last one first; what comes back is a value for each message that the handler took."""
        values = spread(answer, len(self.taken)) if self.taken else []
        await self._contexts.leave(values, cut_off)
        return values

    def settle(self, values: Sequence[object]) -> Results:
        judge = self._shape.judge
        messages = [self._deliveries[index].message for index in self.taken]
        for index, result in zip(self.taken, _settled(judge, messages, values), strict=True):
            self._results[index] = result
        is_well = True
        for delivery, result in zip(self._deliveries, self._results, strict=True):
            judge.report(delivery, result)
            is_well = is_well and result is None
        return None if is_well else self._results
