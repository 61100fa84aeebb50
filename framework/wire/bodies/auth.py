"""Users and their rules as administrators see them. Lists of them are plain JSON lists."""

from __future__ import annotations

from collections.abc import Iterable

from framework.wire import dialect
from framework.wire.bodies.shape import Body, to_json


class UserInfo(Body):
    username: str
    password: str | None = None
    user_type: str = "Normal"
    user_status: str = "enable"


class PolicyEntry(Body):
    """What may, or may not, be done to one resource."""

    resource: str
    actions: tuple[str, ...]
    source_ips: tuple[str, ...] = ()
    decision: str


class Policy(Body):
    policy_type: str = "Custom"
    entries: tuple[PolicyEntry, ...]


class AclInfo(Body):
    """All rules of one subject, `User:name`."""

    subject: str
    policies: tuple[Policy, ...]


def encode_all(bodies: Iterable[Body]) -> bytes:
    return dialect.dumps([to_json(each) for each in bodies])
