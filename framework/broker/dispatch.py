"""From a request to its answer: authentication, interceptors, the handlers' table, and what a handler's word means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from framework.broker.handlers import HANDLERS
from framework.broker.intercept import Interceptor, Interceptors, Lost
from framework.broker.quotas import Quotas
from framework.broker.relays import relay
from framework.broker.request import AfterCommit, Answer, Handler, Hold, Refusal, Relay, Request, refuse
from framework.errors import FrameworkError, ProtocolError, RecordDamaged, StoreError
from framework.marks import sometimes
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import Command

log = structlog.get_logger()

Verify = Callable[[Command, str], str | None]
"""Why a request from this peer is not served; None where it is."""


class Dispatch:
    """One a broker process."""

    def __init__(
        self,
        interceptors: Interceptors,
        verify: Verify | None,
        quotas: Quotas,
        trouble: Callable[[str], None],
        handlers: Mapping[int, Handler] = HANDLERS,
    ) -> None:
        self._quotas = quotas
        self._handlers = handlers
        self._interceptors = interceptors
        self._verify = verify
        self._trouble = trouble

    def serve(self, request: Request) -> None:
        """Take a request that has just come in."""
        if self._verify is not None:
            refusal = self._verify(request.command, request.client.peer)
            if refusal is not None:
                request.answer(refuse(ResponseCode.NO_PERMISSION, refusal))
                return
        interceptor = self._interceptors.take(request) if self._interceptors else None
        if interceptor is None:
            self.resume(request)
        elif interceptor.delay_ms > 0:
            request.node.timers.call_later(interceptor.delay_ms / 1000, self._intercepted, request, interceptor)
        else:
            self._intercepted(request, interceptor)

    def resume(self, request: Request) -> None:
        """Act on a request that has come in, or look again at one that was held."""
        busy = self._quotas.refusal(request.command.code)
        if busy is not None:
            request.answer(busy)
            return
        match self._decide(request):
            case Command() as answer:
                request.answer(answer)
            case Hold() as hold:
                request.node.holds.park(request, hold)
            case Relay() as question:
                relay(request, question)
            case AfterCommit() as word:
                quotas, size = self._quotas, len(request.command.body)
                quotas.writes += 1
                quotas.write_bytes += size

                def done(result: Any, error: FrameworkError | None) -> None:
                    quotas.writes -= 1
                    quotas.write_bytes -= size
                    request.answer(_after(word, result, error))

                request.node.store.writer.submit(word.change, done)

    def _decide(self, request: Request) -> Answer:
        code = request.command.code
        handler = self._handlers.get(code)
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
        except Exception as error:  # border: a handler's mistake must not stop those who were woken with it
            log.exception("request failed", request=request_name(code), peer=request.client.peer)
            return refuse(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__} in {request_name(code)}")

    def _intercepted(self, request: Request, interceptor: Interceptor) -> None:
        sometimes("broker: a request was intercepted")
        if interceptor.lose is Lost.REQUEST:
            return
        request.is_answer_lost = interceptor.lose is Lost.ANSWER
        replacement = interceptor.replacement(request)
        if replacement is None:
            self.resume(request)
        else:
            request.answer(replacement)


def _after(word: AfterCommit, result: Any, error: FrameworkError | None) -> Command:
    if error is None:
        return word.answer(result)
    if isinstance(error, Refusal):
        return refuse(error.code, error.remark, error.fields)
    if word.refused is not None:
        return word.refused(error)
    return refuse(ResponseCode.SYSTEM_ERROR, str(error))
