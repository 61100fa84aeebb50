"""AUTH_GET_ACL (3009): a user's rules, `User:name`; 16 for an unknown user, an empty answer for a user without rules.

Differences: each resource is an entry of its own, as RocketMQ too takes a list of them apart.
"""

from __future__ import annotations

from framework.broker.accounts import acl_info, user_named
from framework.broker.request import Answer, Refusal, Request, ok
from framework.wire.codes import ResponseCode
from framework.wire.requests.auth import AclRequest


def handle(request: Request) -> Answer:
    kind, _, name = request.header(AclRequest).subject.partition(":")
    user = user_named(request.node, name)
    if kind != "User" or user is None:
        raise Refusal(ResponseCode.NO_PERMISSION, "The subject is not exist.")
    found = acl_info(user)
    return ok(body=b"" if found is None else found.encode())
