"""AUTH_LIST_ACL (3010): the rules of all users, by parts of their names and of resources; 1 where there is no file.

Differences: the part of a resource filters also if the name matches; RocketMQ ignores it then.
"""

from __future__ import annotations

from framework.broker.accounts import acl_info, subject_of, users_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.auth import encode_all
from framework.wire.requests.auth import AclListRequest


def handle(request: Request) -> Answer:
    header = request.header(AclListRequest)
    subjects = [user for user in users_of(request.node) if (header.subject_filter or "") in subject_of(user)]
    found = [acl for user in subjects if (acl := acl_info(user, header.resource_filter or "")) is not None]
    return ok(body=encode_all(found) if found else b"")
