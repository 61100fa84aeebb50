"""In place: the call of an async handler that plugins watch, with as few function calls as possible.

Most deliveries with hooks are of one kind: a handler of one message, awaited, that returns nothing, and plugins that
count, log or time. For those one coroutine does what `deliver.py` puts together of several calls, since a call costs as
much as most hooks do. Everything else it hands over: results, failures and verdicts mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framework.core.expiry import SlotDelivery
from framework.hooks.calls import SLOW_SECONDS, Calls
from framework.hooks.failures import reject_unrun
from framework.model.message import Message
from framework.model.outcome import Ack
from framework.services.call.arguments import Arguments
from framework.services.crew.run import RUNNING

if TYPE_CHECKING:
    from framework.services.call.deliver import Judge

SUCCESS = Ack()


def hooked_in_place(  # noqa: C901, PLR0915 - written out: see above
    arguments: Arguments, invoke: Callable[..., Any], otherwise: Callable[[Message], Any], judge: Judge, calls: Calls
) -> Callable[[Message], Any]:
    """The call of a handler with these hooks and no others; `otherwise` is the one that `deliver.py` built.

    On each message's way: tests/house counts what it calls.
    """
    group, now, is_plain = judge.group, judge.now, judge.is_plain
    before_hooks, after_hooks, failed, checked = calls.before_hooks, calls.after_hooks, calls.failed, calls.checked
    function, takes, convert, undecodable = (
        arguments.function,
        arguments.takes,
        arguments.convert,
        arguments.undecodable,
    )
    errors, refused = arguments.errors, arguments.refused
    new = object.__new__

    async def call(message: Message) -> object:  # noqa: C901, PLR0912, PLR0915 - written out: see above
        slot = RUNNING.get()
        if calls.looks > 0 or slot is None or (chunk := slot.chunk) is None:
            result: object = await otherwise(message)
            return result
        # What `SlotDelivery(...)` does, without a call.
        delivery = new(SlotDelivery)
        delivery.group, delivery.message, delivery.started = group, message, slot.started
        delivery._slot, delivery._chunk, delivery._index, delivery._now = slot, chunk, slot.index, now  # noqa: SLF001
        window = chunk.window
        delivery.epoch = None if window is None else window.epoch
        value: Any = None
        for before, each in before_hooks:
            try:
                value = before(delivery)
                if value is not None:
                    value = checked(each, value)
            except BaseException as error:  # noqa: BLE001 - border: a hook's
                failed(each, error)
                value = None
            if value is not None:
                return judge.report(delivery, value)
        if before_hooks and now() - delivery.started > SLOW_SECONDS:
            calls.look_closely()
        try:
            if convert is not None:
                body = message._body or message._source.body(message._at)  # noqa: SLF001 - the property costs a call
                try:
                    value = convert(body)
                except errors as error:
                    raise refused(error) from None
                undecodable.row = 0
                if takes == "message":
                    value = await function(value, message)
                elif takes == "delivery":
                    value = await function(value, delivery)
                else:
                    value = await function(value)
            elif takes == "message":
                value = await function(message)
            else:
                value = await invoke(message, delivery)
        except BaseException as error:  # noqa: BLE001 - border: the handler's
            value = judge.failure(delivery, error)
        if value is not None or not is_plain or slot.verdicts is not None:
            return judge.report(delivery, judge.judged(message, value))
        if after_hooks:
            ended = now()
            elapsed_ms = (ended - delivery.started) * 1000
            for after, each, count in after_hooks:
                try:
                    if count == 3:
                        value = after(delivery, SUCCESS, elapsed_ms)
                    elif count == 2:
                        value = after(delivery, SUCCESS)
                    else:
                        value = after(delivery, SUCCESS, elapsed_ms, "success")
                    if value is not None:
                        reject_unrun(value, each.hook)
                except BaseException as error:  # noqa: BLE001 - border: a hook's
                    failed(each, error)
            if now() - ended > SLOW_SECONDS:
                calls.look_closely()
        return None

    return call
