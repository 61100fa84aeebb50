"""From a request to its answer: authentication, interceptors, the handlers' table, and what a handler's word means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework.broker.handlers import HANDLERS
from framework.broker.intercept import Interceptor, Interceptors, Lost
from framework.broker.request import AfterCommit, Answer, Hold, Refusal, Request, refuse
from framework.errors import FrameworkError, ProtocolError, RecordDamaged, StoreError
from framework.marks import sometimes
from framework.wire.codes import ResponseCode
from framework.wire.command import Command

Verify = Callable[[Command], bool]


class Dispatch:
    """One a broker process."""

    def __init__(self, interceptors: Interceptors, verify: Verify | None, trouble: Callable[[str], None]) -> None:
        self._interceptors = interceptors
        self._verify = verify
        self._trouble = trouble

    def serve(self, request: Request) -> None:
        """Take a request that has just come in."""
        if self._verify is not None and not self._verify(request.command):
            self._answer(request, refuse(ResponseCode.NO_PERMISSION, "signature is missing or does not match"))
            return
        if self._interceptors:
            interceptor = self._interceptors.take(request)
            if interceptor is not None:
                sometimes("broker: a request was intercepted")
                self._intercepted(request, interceptor)
                return
        self._act(request, self._decide(request), request.client.answer)

    def resume(self, request: Request) -> None:
        """Look again at a request that was held."""
        self._act(request, self._decide(request), request.client.answer)

    def _decide(self, request: Request) -> Answer:
        code = request.command.code
        handler = HANDLERS.get(code)
        if handler is None:
            return refuse(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
        try:
            return handler(request)
        except Refusal as refusal:
            return refuse(refusal.code, refusal.remark, refusal.fields)
        except (RecordDamaged, StoreError) as error:
            self._trouble(str(error))
            return refuse(ResponseCode.SYSTEM_ERROR, str(error))
        except ProtocolError as error:
            return refuse(ResponseCode.SYSTEM_ERROR, error.reason)

    def _act(self, request: Request, answer: Answer, send: Callable[[Command, Command], None]) -> None:
        match answer:
            case Command():
                send(request.command, answer)
            case Hold():
                request.node.holds.park(request, answer)
            case AfterCommit():

                def done(result: Any, error: FrameworkError | None) -> None:
                    send(request.command, _after(answer, result, error))

                request.node.store.writer.submit(answer.change, done)

    def _answer(self, request: Request, answer: Command) -> None:
        request.client.answer(request.command, answer)

    def _intercepted(self, request: Request, interceptor: Interceptor) -> None:
        if interceptor.delay_ms > 0:
            request.node.timers.call_later(interceptor.delay_ms / 1000, self._go_on, request, interceptor)
        else:
            self._go_on(request, interceptor)

    def _go_on(self, request: Request, interceptor: Interceptor) -> None:
        if interceptor.lose is Lost.REQUEST:
            return
        replacement = interceptor.replacement(request)
        if replacement is not None:
            self._answer(request, replacement)
        elif interceptor.lose is Lost.ANSWER:
            self._act(request, self._decide(request), _nowhere)
        else:
            self._act(request, self._decide(request), request.client.answer)


def _after(word: AfterCommit, result: Any, error: FrameworkError | None) -> Command:
    if error is None:
        return word.answer(result)
    if isinstance(error, Refusal):
        return refuse(error.code, error.remark, error.fields)
    if word.refused is not None:
        return word.refused(error)
    return refuse(ResponseCode.SYSTEM_ERROR, str(error))


def _nowhere(request: Command, answer: Command) -> None:
    """Where a lost answer goes."""
