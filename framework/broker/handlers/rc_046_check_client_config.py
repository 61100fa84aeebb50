"""CHECK_CLIENT_CONFIG (46): whether a group's filter can be used here. Tags can; clients ask only about others.

Differences: none known (a stock broker refuses SQL92 too).
"""

from __future__ import annotations

from framework.broker.filters import TAG
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import shorten
from framework.wire.bodies.heartbeat import CheckClientConfig
from framework.wire.codes import ResponseCode


def handle(request: Request) -> Answer:
    subscription = CheckClientConfig.decode(request.command.body).subscription
    if subscription.expression_type != TAG:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by "
            + shorten(subscription.expression_type).strip("'"),
        )
    return ok()
