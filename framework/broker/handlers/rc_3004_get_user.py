"""AUTH_GET_USER (3004): one user of the `--auth` file, or an empty answer; 1 where there is no file.

Differences: passwords are not shown, and every user is enabled.
"""

from __future__ import annotations

from framework.broker.accounts import user_info, user_named
from framework.broker.request import Answer, Refusal, Request, ok
from framework.wire.codes import ResponseCode
from framework.wire.requests.auth import UserRequest


def handle(request: Request) -> Answer:
    header = request.header(UserRequest)
    if not header.username:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The username is blank")
    user = user_named(request.node, header.username)
    return ok(body=b"" if user is None else user_info(user).encode())
