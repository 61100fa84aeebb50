"""Requests that plugins answer: codes that the broker does not know, and codes that a plugin answers in its place.

A plugin's handler is called on the broker's loop and answers at once. If it fails or returns nothing, the broker
answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.broker.handlers import HANDLERS
from framework.broker.request import Answer, Handler, Request, refuse
from framework.model.box import BoxAnswer, BoxHandler, BoxRequest
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand


def table_with(given: Mapping[int, BoxHandler] | None) -> Mapping[int, Handler]:
    """The broker's own handlers, with these before them."""
    if not given:
        return HANDLERS
    return {**HANDLERS, **{code: _before(HANDLERS.get(code), each) for code, each in given.items()}}


def _before(own: Handler | None, plugged: BoxHandler) -> Handler:
    def handle(request: Request) -> Answer:
        if own is not None and request.was_held:
            return own(request)  # it was asked when the request came in, and had no answer
        command = request.command
        answer = plugged(
            BoxRequest(command.code, dict(command.fields), command.body, request.client.peer, request.node.name)
        )
        if isinstance(answer, BoxAnswer):
            return RemotingCommand(answer.code, dict(answer.fields), answer.body, remark=answer.remark)
        if own is not None:
            return own(request)
        if answer is not None:
            return refuse(ResponseCode.SYSTEM_ERROR, str(answer))
        return refuse(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    return handle
