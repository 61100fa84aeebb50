"""AUTH_LIST_USER (3005): the users of the `--auth` file whose names have a part; 1 where there is no file.

Differences: those of 3004.
"""

from __future__ import annotations

from framework.broker.accounts import user_info, users_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.auth import encode_all
from framework.wire.requests.auth import UserListRequest


def handle(request: Request) -> Answer:
    wanted = request.header(UserListRequest).filter or ""
    found = [user_info(user) for user in users_of(request.node) if wanted in user.name]
    return ok(body=encode_all(found) if found else b"")
