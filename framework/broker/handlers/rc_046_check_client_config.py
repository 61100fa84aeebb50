"""CHECK_CLIENT_CONFIG (46): whether a group's filter can be used here. Clients ask it of SQL92 before they begin.

Differences: SQL92 is on by default, where a stock broker refuses it with 1. An error in an expression is described in
our own words, with its place; 23 as there, also for an unknown kind of expression.
"""

from __future__ import annotations

from framework.broker.filters import KINDS, TAG, check_kind, read_first, wanted
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import shorten
from framework.wire.bodies.heartbeat import CheckClientConfig
from framework.wire.codes import ResponseCode


def handle(request: Request) -> Answer:
    node = request.node
    told = CheckClientConfig.decode(request.command.body).subscription
    kind = told.expression_type or TAG
    if kind not in KINDS and node.switches.filters_sql:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"{shorten(kind)} is no kind of expression: use {' or '.join(KINDS)}",
        )
    check_kind(node, kind)
    wish = wanted(told.topic, told.expression, kind=kind, is_strict=node.settings.is_sql_strict)
    if (unread := read_first(request, wish, handle)) is not None:
        return unread
    if wish.mistake:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, wish.mistake)
    return ok()
