"""From a request to its answer: authentication, interceptors, the handlers' table, and what a handler's word means."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

import structlog

from framework.broker.handlers import HANDLERS
from framework.broker.intercept import Interceptor, Interceptors, Lost
from framework.broker.large import Large
from framework.broker.loans import NOTHING, Loan
from framework.broker.quotas import Quotas, cost_of
from framework.broker.refused import RefusedHeartbeats
from framework.broker.relays import relay
from framework.broker.request import AfterCommit, Answer, Handler, Hold, InSteps, Refusal, Relay, Request, refuse
from framework.broker.work import check_values
from framework.errors import FrameworkError, ProtocolError, RecordDamaged, StoreError
from framework.marks import sometimes
from framework.wire.codes import ResponseCode, request_name
from framework.wire.command import RemotingCommand

log = structlog.get_logger()

# A connection may ask for thousands at once; those that wait count as requests do that wait for the disk.
SHORT_WAITING_MAX = 64

Verify = Callable[[RemotingCommand, str], str | None]
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
        self._refused = RefusedHeartbeats()
        self._large = {is_write: Large(self._conclude) for is_write in (False, True)}

    def serve(self, request: Request) -> None:
        """Take a request that has just come in."""
        try:
            check_values(request.command, request.node.settings.values_max)
        except Refusal as over:
            request.answer(refuse(over.code, over.remark))
            return
        if self._verify is not None:
            refusal = self._verify(request.command, request.client.peer)
            if refusal is not None:
                self._answer(request, refuse(ResponseCode.NO_PERMISSION, refusal))
                return
        if not request.client.is_proven:
            request.client.prove()
        interceptor = self._interceptors.take(request) if self._interceptors else None
        if interceptor is None:
            self.resume(request)
        elif interceptor.delay_ms > 0:
            request.node.timers.call_later(interceptor.delay_ms / 1000, self._intercepted, request, interceptor)
        else:
            self._intercepted(request, interceptor)

    def wake(self, request: Request) -> None:
        """Look again at a request that was held, in a turn of its connection: a message may wake thousands."""
        request.client.attend(self._woken(request))

    def _woken(self, request: Request) -> Generator[None, None, None]:
        self.resume(request)
        yield from ()

    def resume(self, request: Request) -> None:
        """Act on a request that has come in, or look again at one that was held."""
        busy = self._quotas.refusal(request)
        if busy is not None:
            self._answer(request, busy)
            return
        self._conclude(request, None)

    def _conclude(self, request: Request, decide: Callable[[], Answer] | None, loan: Loan = NOTHING) -> None:
        """Do what a handler's word means; the `loan` is given back when nothing of it is left to do."""
        with loan:
            match self._decided(request, decide):
                case RemotingCommand() as answer:
                    self._answer(request, answer)
                case Hold() as hold:
                    (request.node.pops.holds if hold.is_pop else request.node.holds).park(request, hold)
                case Relay() as question:
                    relay(request, question, self._conclude)
                case InSteps() as word if word.is_short and len(self._large[word.is_write]) >= SHORT_WAITING_MAX:
                    self._conclude(request, partial(_at_once, word))
                case InSteps() as word:
                    self._large[word.is_write].enter(request, word, self._counted(request))
                case AfterCommit() as change:
                    self._submit(request, change, loan.hand_on() if loan else self._counted(request))

    def _answer(self, request: Request, answer: RemotingCommand) -> None:
        if answer.code:
            self._refused.look(request, answer)
        request.answer(answer)

    def _submit(self, request: Request, word: AfterCommit[Any], loan: Loan) -> None:
        # The change has put it together with all else that is stored; twice is once too often.
        request.command.body = b""

        def done(result: Any, error: FrameworkError | None) -> None:
            with loan, word.loan:
                self._conclude(request, partial(_after, word, result, error))

        request.node.store.writer.submit(word.change, done)

    def _counted(self, request: Request) -> Loan:
        """Count what waits for the disk until it is given back."""
        cost = cost_of(request.command)
        self._quotas.take(request.client, cost)
        return Loan(partial(self._quotas.give_back, request.client, cost))

    def _decided(self, request: Request, decide: Callable[[], Answer] | None) -> Answer:
        code = request.command.code
        handler = self._handlers.get(code)
        if handler is None:
            return refuse(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
        try:
            return handler(request) if decide is None else decide()
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


def _at_once(word: InSteps) -> Answer:
    while True:
        try:
            next(word.steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def _after(word: AfterCommit[Any], result: Any, error: FrameworkError | None) -> RemotingCommand:
    if error is None:
        return word.answer(result)
    if isinstance(error, Refusal):
        return refuse(error.code, error.remark, error.fields)
    if word.refused is not None:
        return word.refused(error)
    return refuse(ResponseCode.SYSTEM_ERROR, str(error))
