"""From a request to its answer: authentication, interceptors, the handlers' table, and what a handler's word means."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

import structlog

from framework.broker.answers import AfterCommit, Answer, Answered, Hold, InSteps, Refusal, Relay, refuse
from framework.broker.handlers import HANDLERS
from framework.broker.intercept import Interceptor, Interceptors, Lost
from framework.broker.large import Large
from framework.broker.loans import NOTHING, Loan
from framework.broker.node import Node
from framework.broker.quotas import Quotas, cost_of
from framework.broker.request import Handler, Request
from framework.broker.work import check_values
from framework.errors import FrameworkError, ProtocolError, RecordDamaged, StoreError, bare
from framework.marks import sometimes
from framework.wire.codes import RequestCode, ResponseCode, request_name
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
        self._is_stopping = False
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
            self._resume(request)
        elif interceptor.delay_ms > 0:
            request.node.timers.call_later(interceptor.delay_ms / 1000, self._intercepted, request, interceptor)
        else:
            self._intercepted(request, interceptor)

    def stop(self, node: Node) -> None:
        """Answer at once what is held."""
        self._is_stopping = node.pops.is_stopped = True
        node.holds.end_all()
        node.pops.holds.end_all()

    def _park(self, request: Request, hold: Hold) -> None:
        # A pull has no body; one that came with one need not be held with it.
        request.command.body = b""
        holds = request.node.pops.holds if hold.is_pop else request.node.holds
        holds.park(hold, request.client, request.command.fields, partial(self._wake, request))

    def _wake(self, request: Request) -> None:
        """Look again at a request that was held, in a turn of its connection: a message may wake thousands."""
        request.was_held = True
        if self._is_stopping:
            self._resume(request)
        else:
            request.client.attend(self._woken(request))

    def _woken(self, request: Request) -> Generator[None, None, None]:
        self._resume(request)
        yield from ()

    def _resume(self, request: Request) -> None:
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
                    self._park(request, hold)
                case Relay() as question:
                    _Relaying(request, question, self._conclude).start()
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
            self._resume(request)
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


log = structlog.get_logger()

QUIET_SECONDS = 60


class RefusedHeartbeats:
    """A client whose heartbeat is not taken consumes nothing, and says little about it: a line in the log tells.

    Not twice a minute, for a client repeats its heartbeat for ever, and so do a thousand of them. `times` in a line
    counts those since the last line, with this one.
    """

    def __init__(self) -> None:
        self._quiet_until, self._times = float("-inf"), 0

    def look(self, request: Request, answer: RemotingCommand) -> None:
        """At an answer that is no success."""
        if request.command.code != RequestCode.HEART_BEAT:
            return
        self._times += 1
        now = request.node.timers.time()
        if now >= self._quiet_until:
            peer, reason = request.client.peer, bare(answer.remark or f"code {answer.code}")
            log.warning("heartbeat refused", peer=peer, times=self._times, reason=reason)
            self._quiet_until, self._times = now + QUIET_SECONDS, 0


# The connection's own time-out, which would end it: long after ours, when heartbeats have shown that it lives.
_CHANNEL_TIMEOUT_MS = 600_000


class _Relaying:
    """An administrator's question, handed on to members all at once; answered when the last one has, or in time.

    A member that says nothing keeps its connection, for it may be busy with the very thing that was asked of it.
    """

    def __init__(
        self, request: Request, word: Relay, conclude: Callable[[Request, Callable[[], Answer]], None]
    ) -> None:
        self._request, self._conclude = request, conclude
        self._word = word
        self._answers: list[RemotingCommand | None] = [None] * len(word.asked)
        self._missing = len(word.asked)
        self._is_over = False

    def start(self) -> None:
        timer = self._request.node.timers.call_later(self._word.timeout_ms / 1000, self._end)
        self._timer = timer
        for i, (client, command) in enumerate(self._word.asked):
            try:
                answered = client.request_now(command, timeout_ms=_CHANNEL_TIMEOUT_MS)
            except FrameworkError:
                self._heard(i, None)
            else:
                answered.add_done_callback(partial(self._answered, i))
        if not self._word.asked:
            self._end()

    def _answered(self, number: int, answered: Answered) -> None:
        self._heard(number, _result(answered))

    def _heard(self, number: int, answer: RemotingCommand | None) -> None:
        self._answers[number] = answer
        self._missing -= 1
        if self._missing == 0:
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._timer.cancel()
            self._conclude(self._request, partial(self._word.answer, self._answers))


def _result(answered: Answered) -> RemotingCommand | None:
    """The member's answer; None where its connection ended first."""
    if answered.cancelled() or answered.exception() is not None:
        return None
    return answered.result()
